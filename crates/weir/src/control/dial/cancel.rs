//! Cancel requests towards PostgreSQL: a connection of their own that carries nothing else.

use super::stream::Stream;
use crate::shared::{CancelTarget, Delivery, Shared};
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::write;

/// Sends the request and waits until the server has closed the connection, for at most `cancel_wait_timeout`. Only then may
/// the server connection serve somebody else: PostgreSQL closes after it has sent the signal (manual: "Canceling Requests in Progress").
/// The end of `target` tells the worker. At most `cancel_connections_max` are under way at the same time; the others wait.
pub async fn cancel(shared: &Arc<Shared>, mut target: CancelTarget) {
    if target.key.is_empty() {
        target.hold.delivery = Delivery::Done; // there is nothing that could arrive late
        return;
    }
    let limit = shared.config.load().general.cancel_wait_timeout;
    tokio::select! {
        outcome = deliver(shared, &target) => match outcome {
            Ok(()) => target.hold.delivery = Delivery::Done,
            Err(error) => tracing::warn!(address = ?target.address, %error, "a cancel request could not be delivered"),
        },
        () = expiry(limit) => tracing::warn!(address = ?target.address, "a cancel request was given up after cancel_wait_timeout"),
    }
}

async fn deliver(shared: &Arc<Shared>, target: &CancelTarget) -> io::Result<()> {
    let general = Arc::clone(&shared.config.load().general);
    let limit = &shared.network.cancels;
    limit.resize(general.cancel_connections_max as usize);
    let _permit = limit.permits.acquire().await.map_err(io::Error::other)?;
    let mut stream = Stream::connect(&target.address, &general).await?;
    // Here TLS comes in, as for a log-in.
    let mut request = Vec::new();
    write::cancel_request(&mut request, target.pid, &target.key);
    stream.write_all(&request).await?;
    let mut ignored = [0; 64];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}

async fn expiry(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => pending().await,
    }
}
