//! The console, through the simple query protocol.

use lab::runtime::apart;
use tokio_postgres::{Config, Error, NoTls, SimpleQueryMessage};

/// Where and as whom to ask; each question has a connection of its own.
#[derive(Debug)]
pub struct Console {
    config: Config,
}

impl Console {
    pub(crate) fn new(connection_string: &str) -> Self {
        let config = connection_string.parse().expect("a connection string");
        Self { config }
    }

    /// # Panics
    /// When the answer is an error.
    #[track_caller]
    pub fn ask(&self, command: &str) -> Table {
        self.try_ask(command)
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// # Errors
    /// The text of the error, with its SQLSTATE in front: "42501: ...".
    pub fn try_ask(&self, command: &str) -> Result<Table, String> {
        apart(ask(&self.config, command)).map_err(|error| describe(&error))
    }
}

/// A result: names of columns, and rows of texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// All values of a column; an empty text stands for NULL.
    ///
    /// # Panics
    /// When there is no such column.
    #[track_caller]
    pub fn column(&self, name: &str) -> Vec<&str> {
        let index = self.index(name);
        self.rows
            .iter()
            .map(|row| row[index].as_deref().unwrap_or_default())
            .collect()
    }

    /// The rows whose column `name` is `value`.
    #[track_caller]
    pub fn having(&self, name: &str, value: &str) -> Table {
        let index = self.index(name);
        let rows = self
            .rows
            .iter()
            .filter(|row| row[index].as_deref() == Some(value));
        Table {
            columns: self.columns.clone(),
            rows: rows.cloned().collect(),
        }
    }

    /// The column's value in the only row.
    ///
    /// # Panics
    /// When there is no such column, no row or more than one.
    #[track_caller]
    pub fn only(&self, name: &str) -> &str {
        match self.column(name)[..] {
            [value] => value,
            _ => panic!("expected one row: {self:?}"),
        }
    }

    /// [`Table::only`] as a number.
    #[track_caller]
    pub fn number(&self, name: &str) -> i64 {
        let value = self.only(name);
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value:?}"))
    }

    #[track_caller]
    fn index(&self, name: &str) -> usize {
        let found = self.columns.iter().position(|column| column == name);
        found.unwrap_or_else(|| panic!("no column {name} among {:?}", self.columns))
    }
}

async fn ask(config: &Config, command: &str) -> Result<Table, Error> {
    let (client, connection) = config.connect(NoTls).await?;
    let answered = async move { client.simple_query(command).await };
    let (answer, _) = tokio::join!(answered, connection);
    Ok(table(&answer?))
}

fn table(messages: &[SimpleQueryMessage]) -> Table {
    let mut table = Table::default();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                table.columns = columns
                    .iter()
                    .map(|column| column.name().to_owned())
                    .collect();
            }
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|index| row.get(index).map(str::to_owned));
                table.rows.push(values.collect());
            }
            _ => {}
        }
    }
    table
}

fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{}: {}", told.code().code(), told.message()),
        None => error.to_string(),
    }
}
