//! Cancel requests that clients send (manual: "Canceling Requests in Progress"): each comes on a connection of its own, which is closed
//! when the request has been delivered or found to be void. The peer is not told which.

use crate::shared::{CancelTarget, ClientCounter, Shared, ToWorker};
use pooling::cancel::ClientPid;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Cancel requests under way.
#[derive(Default)]
pub struct CancelRequests {
    under_way: Arc<ClientCounter>,
}

/// A place under `cancel_connections_max`.
pub struct Place(Arc<ClientCounter>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.subtract();
    }
}

impl CancelRequests {
    pub fn place(&self, most: u32) -> Option<Place> {
        self.under_way
            .try_add(most)
            .then(|| Place(Arc::clone(&self.under_way)))
    }

    /// Takes a request to the server that runs the client's query. Returns when that has been done, or given up after
    /// `cancel_wait_timeout`.
    pub async fn deliver(&self, shared: &Arc<Shared>, pid: i32, secret: Vec<u8>) {
        let general = Arc::clone(&shared.config.load().general);
        let Some(_place) = self.place(general.cancel_connections_max) else {
            tracing::warn!("cancel request dropped: too many under way (cancel_connections_max)");
            return;
        };
        let delivery = route(shared, ClientPid(pid), secret.into());
        let Some(longest) = general.cancel_wait_timeout else {
            return delivery.await;
        };
        if tokio::time::timeout(longest, delivery).await.is_err() {
            tracing::warn!("cancel request dropped: cancel_wait_timeout");
        }
    }
}

async fn route(shared: &Arc<Shared>, pid: ClientPid, secret: Box<[u8]>) {
    let Some(target) = ask_worker(shared, pid, secret).await else {
        return;
    };
    tracing::debug!(server_pid = target.pid, "cancel request forwarded");
    super::dial::cancel(shared, target).await;
}

/// The client's process id names its worker, which alone knows what the client runs, and whether the secret is its own.
async fn ask_worker(shared: &Shared, pid: ClientPid, secret: Box<[u8]>) -> Option<CancelTarget> {
    let (answer, outcome) = oneshot::channel();
    shared.tell(
        pid.worker(),
        ToWorker::Cancel {
            pid,
            secret,
            answer,
        },
    );
    outcome.await.ok().flatten()
}
