//! A connection that looks at what PostgreSQL does meanwhile.

use super::Error;
use crate::runtime::PAUSE;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(120);

/// Sees PostgreSQL, directly or through somebody's pooler: only simple queries, and no state.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    role: String,
    /// Connections of the role that were there before.
    before: u64,
}

/// Whose server is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Own,
    Others,
}

impl Watch {
    /// `role` is whom the experiments connect as; on a server of the lab's own nobody else does.
    pub(super) async fn connect(config: Config, role: String, whose: Whose) -> Result<Self, Error> {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        let mut watch = Self {
            client,
            role,
            before: 0,
        };
        if whose == Whose::Others {
            watch.before = watch.connections().await?;
        }
        Ok(watch)
    }

    /// Server connections of the experiments' role, beyond those that were there before.
    ///
    /// # Errors
    /// [`Error::Watch`].
    pub async fn connections(&self) -> Result<u64, Error> {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = '{}' AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
            self.role.replace('\'', "''")
        );
        Ok((self.number(&sql).await? as u64).saturating_sub(self.before))
    }

    /// The first column of the first row; 0 where there is none.
    ///
    /// # Errors
    /// [`Error::Watch`].
    pub async fn number(&self, sql: &str) -> Result<f64, Error> {
        let text = self.text(sql).await?;
        Ok(text.parse().unwrap_or_default())
    }

    /// # Errors
    /// [`Error::Watch`].
    pub async fn text(&self, sql: &str) -> Result<String, Error> {
        let messages = self.client.simple_query(sql).await?;
        let first = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(first.unwrap_or_default().to_owned())
    }

    /// Waits until PostgreSQL's processes for closed connections are gone, so that they do not disturb what comes next.
    ///
    /// # Errors
    /// [`Error::Watch`], or that they did not go.
    pub async fn until_nobody_is_left(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while self.connections().await? > 0 {
            if Instant::now() > deadline {
                return Err(Error::Unfit(
                    "connections of an earlier measurement do not end".into(),
                ));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Waits until the number of server connections does not fall any more.
    ///
    /// # Errors
    /// [`Error::Watch`].
    pub async fn until_no_more_leave(&self) -> Result<(), Error> {
        let mut before = u64::MAX;
        loop {
            let now = self.connections().await?;
            if now >= before || now == 0 {
                return Ok(());
            }
            before = now;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The most server connections that are seen until `load` ends, and what it returns.
    ///
    /// # Errors
    /// Those of both.
    pub async fn most_while<T, E>(
        &self,
        load: impl Future<Output = Result<T, E>>,
    ) -> Result<(T, u64), Error>
    where
        Error: From<E>,
    {
        let mut most = 0;
        let mut clock = tokio::time::interval(LOOK_EVERY);
        tokio::pin!(load);
        loop {
            tokio::select! {
                done = &mut load => return Ok((done?, most.max(self.connections().await?))),
                _ = clock.tick() => most = most.max(self.connections().await?),
            }
        }
    }
}
