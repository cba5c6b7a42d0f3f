//! A way to a server on which everything takes a known time longer.

use lab::driver::Clock;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Ends when dropped.
pub struct SlowWay {
    port: u16,
    _runtime: Runtime,
}

impl SlowWay {
    /// `delay` in each direction, for everything that arrives together.
    pub fn to(server: u16, delay: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind(("127.0.0.1", 0)))
            .expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let clock = Clock::start().expect("a thread");
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, delay, clock.clone()));
            }
        });
        Self {
            port,
            _runtime: runtime,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

async fn carry(client: TcpStream, server: u16, delay: Duration, clock: Clock) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client, server) = (client.into_split(), server.into_split());
    let there = carry_one_way(client.0, server.1, delay, &clock);
    let back = carry_one_way(server.0, client.1, delay, &clock);
    // Whoever closes first ends both.
    tokio::select! {
        ended = there => ended,
        ended = back => ended,
    }
}

async fn carry_one_way(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    delay: Duration,
    clock: &Clock,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        clock.sleep_until(Instant::now() + delay).await;
        to.write_all(&buffer[..count]).await?;
    }
}
