//! An application's use of fred: prints each part that has passed. table.py has the arguments.
//!
//! usage: everyday-fred PORT TLS_PORT CA CLUSTER_PORT

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::prelude::*;
use fred::rustls::pki_types::{CertificateDer, pem::PemObject};
use fred::rustls::{ClientConfig, RootCertStore};
use fred::types::client::ClientKillFilter;
use fred::types::config::{TlsConfig, TlsConnector, TlsHostMapping};
use fred::types::scripts::Script;
use fred::types::streams::XReadResponse;
use fred::types::{InfoKind, RespVersion};
use futures_util::future::try_join_all;
use tokio::time::{sleep, timeout};

type Outcome = Result<(), Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(60);
const ADD: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

fn argument(n: usize) -> String {
    std::env::args().nth(n).expect("usage: everyday-fred PORT TLS_PORT CA CLUSTER_PORT")
}

fn builder() -> Result<Builder, Box<dyn Error>> {
    let mut config = Config::from_url(&format!("redis://127.0.0.1:{}", argument(1)))?;
    config.version = RespVersion::RESP3;
    let mut builder = Builder::from_config(config);
    builder.set_policy(ReconnectPolicy::new_constant(0, 20));
    Ok(builder)
}

async fn connect() -> Result<Client, Box<dyn Error>> {
    let client = builder()?.build()?;
    client.init().await?;
    Ok(client)
}

/// Waits until a command returns true.
async fn wait_until<F: Future<Output = Result<bool, fred::error::Error>>>(
    is_reached: impl Fn() -> F,
) -> Outcome {
    let begin = Instant::now();
    while !is_reached().await? {
        assert!(begin.elapsed() < PATIENCE, "not reached");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn pool() -> Outcome {
    let pool = builder()?.build_pool(4)?;
    pool.init().await?;
    let tasks = (0..16).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                pool.incr::<i64, _>("pool").await.expect("INCR");
            }
        })
    });
    try_join_all(tasks).await?;
    assert_eq!(pool.get::<i64, _>("pool").await?, 3200);
    pool.quit().await?;
    Ok(())
}

async fn pipeline(client: &Client) -> Outcome {
    let pipe = client.pipeline();
    for n in 0..5000 {
        let _: () = pipe.set(format!("pipe:{n}"), n, None, None, false).await?;
    }
    assert_eq!(pipe.all::<Vec<String>>().await?, vec!["OK"; 5000]);
    assert_eq!(client.get::<i64, _>("pipe:4999").await?, 4999);
    Ok(())
}

async fn transaction(client: &Client) -> Outcome {
    let buyer = connect().await?;
    let _: () = client.set("account", 10, None, None, false).await?;
    for is_first in [true, false] {
        buyer.watch("account").await?;
        // The first try fails: another client changes the watched key.
        if is_first {
            let _: () = client.set("account", 5, None, None, false).await?;
        }
        let block = buyer.multi();
        let _: () = block.decr("account").await?;
        let _: () = block.get("account").await?;
        let replies: Option<(i64, i64)> = block.exec(true).await?;
        assert_eq!(replies, if is_first { None } else { Some((4, 4)) });
    }
    buyer.quit().await?;
    Ok(())
}

async fn blocking_pop(client: &Client) -> Outcome {
    let waiter = connect().await?;
    let popped = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.blpop::<(String, String), _>("jobs", 60.0).await }
    });
    let is_blocked = || async {
        let info: String = client.info(Some(InfoKind::Clients)).await?;
        Ok(info.contains("blocked_clients:1"))
    };
    wait_until(is_blocked).await?;
    let _: () = client.rpush("jobs", "work").await?;
    assert_eq!(popped.await??, ("jobs".into(), "work".into()));
    waiter.quit().await?;
    Ok(())
}

async fn reconnection(client: &Client) -> Outcome {
    let victim = connect().await?;
    for n in 1..=20 {
        let id: i64 = victim.client_id().await?;
        let killed: i64 = client.client_kill(vec![ClientKillFilter::ID(id.to_string())]).await?;
        assert_eq!(killed, 1);
        assert_eq!(victim.incr::<i64, _>("n").await?, n);
    }
    victim.quit().await?;
    Ok(())
}

async fn streams(client: &Client) -> Outcome {
    for n in 0..100 {
        let limit = ("MAXLEN", "~", 1000);
        let _: String = client.xadd("events", false, limit, "*", ("n", n)).await?;
    }
    let _: () = client.xgroup_create("events", "workers", "0", false).await?;
    let mut seen = Vec::new();
    while seen.len() < 100 {
        let batch: XReadResponse<String, String, String, i64> =
            client.xreadgroup_map("workers", "w1", Some(16), None, false, "events", ">").await?;
        for (id, fields) in batch.into_values().flatten() {
            seen.push(fields["n"]);
            assert_eq!(client.xack::<i64, _, _, _>("events", "workers", id).await?, 1);
        }
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    Ok(())
}

async fn scripts(client: &Client) -> Outcome {
    let add = Script::from_lua(ADD);
    let sum: i64 = add.evalsha_with_reload(client, "script", 2).await?;
    assert_eq!(sum, 2);
    // NOSCRIPT: the library loads it.
    client.script_flush(false).await?;
    let sum: i64 = add.evalsha_with_reload(client, "script", 3).await?;
    assert_eq!(sum, 5);
    Ok(())
}

/// The library passes the messages on; the application has the cache.
async fn invalidations(client: &Client) -> Outcome {
    let reader = connect().await?;
    let mut invalidations = reader.invalidation_rx();
    reader.start_tracking(None, false, false, false, false).await?;
    for n in 0..100 {
        let key = format!("cached:{n}");
        let _: Option<String> = reader.get(&key).await?;
        let _: () = client.set(&key, "new", None, None, false).await?;
        let invalidation = timeout(PATIENCE, invalidations.recv()).await??;
        assert_eq!(invalidation.keys, [Key::from(&key)]);
        assert_eq!(reader.get::<String, _>(&key).await?, "new");
    }
    reader.quit().await?;
    Ok(())
}

async fn tls() -> Outcome {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(argument(3))?)?;
    let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let mut config = Config::from_url(&format!("redis://localhost:{}", argument(2)))?;
    let connector = TlsConnector::Rustls(Arc::new(tls).into());
    config.tls = Some(TlsConfig { connector, hostnames: TlsHostMapping::None });
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    let _: () = client.set("tls", "x".repeat(1_000_000), None, None, false).await?;
    assert_eq!(client.get::<String, _>("tls").await?.len(), 1_000_000);
    client.quit().await?;
    Ok(())
}

async fn cluster() -> Outcome {
    let config = Config::from_url(&format!("redis-cluster://127.0.0.1:{}", argument(4)))?;
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    let values: HashMap<String, i64> = (0..100).map(|n| (format!("key:{n}"), n)).collect();
    for (key, value) in &values {
        let _: () = client.set(key, *value, None, None, false).await?;
    }
    for (key, value) in &values {
        assert_eq!(client.get::<i64, _>(key).await?, *value);
    }
    client.quit().await?;
    Ok(())
}

async fn run() -> Outcome {
    let client = connect().await?;
    let done = |name: &str| println!("{name}");
    pool().await?;
    done("pool");
    pipeline(&client).await?;
    done("pipeline");
    transaction(&client).await?;
    done("transaction");
    blocking_pop(&client).await?;
    done("blocking pop");
    reconnection(&client).await?;
    done("reconnection");
    streams(&client).await?;
    done("streams");
    scripts(&client).await?;
    done("scripts");
    invalidations(&client).await?;
    done("invalidations");
    tls().await?;
    done("TLS");
    cluster().await?;
    done("cluster");
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    run().await?;
    println!("done");
    Ok(())
}
