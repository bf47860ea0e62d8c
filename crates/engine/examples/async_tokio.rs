//! Asynchronous requests under tokio: many tasks, one database. The library does not depend on tokio.

#![allow(clippy::disallowed_methods, reason = "a directory of a user")]

use spanlith::{Db, Page, ReadOptions, WriteOptions};

async fn client(db: Db, client: u32) -> spanlith::Result<()> {
    let cf = db.default_cf().to_async();
    let durable = WriteOptions::new().sync(true);
    for n in 0..10 {
        let key = format!("client{client}/{n}");
        // The task sleeps while the write waits for its sync, which it shares with those of other tasks.
        cf.put_opt(&key, "value", &durable).await?;
        // Memory knows the answer: the future is ready at once.
        assert!(cf.get(&key).await?.is_some());
    }
    Ok(())
}

async fn run(db: Db) -> spanlith::Result<()> {
    let clients: Vec<_> = (0..20)
        .map(|n| tokio::spawn(client(db.clone(), n)))
        .collect();
    for client in clients {
        client.await.expect("no client panics")?;
    }
    // A range in pages: what a stream would do.
    let cf = db.default_cf().to_async();
    let (mut options, mut entries) = (ReadOptions::default(), 0);
    loop {
        let page: Page = cf.scan(&options, 64).await?;
        entries += page.entries.len();
        match page.next {
            Some(next) => options.lower = Some(next),
            None => break,
        }
    }
    println!("{entries} entries");
    Ok(())
}

/// Runs the example.
pub fn main() -> spanlith::Result<()> {
    let dir = std::env::temp_dir().join(format!("spanlith-tokio-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("threads for the runtime");
    runtime.block_on(run(db.clone()))?;
    drop(runtime);
    db.close()?;
    std::fs::remove_dir_all(&dir).ok();
    Ok(())
}
