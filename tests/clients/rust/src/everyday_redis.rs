//! An application's use of redis-rs: prints each part that has passed. table.py has the arguments.
//!
//! usage: everyday-redis-rs PORT TLS_PORT CA CLUSTER_PORT

use std::collections::HashMap;
use std::error::Error;
use std::thread::{self, sleep, spawn};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::caching::CacheConfig;
use redis::cluster::ClusterClient;
use redis::streams::{StreamMaxlen, StreamReadOptions, StreamReadReply};
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client, Commands, Connection, PushInfo, PushKind,
    RedisResult, Script, TlsCertificates, Value, cmd, from_redis_value, pipe, transaction,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

type Outcome = Result<(), Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(60);
const ADD: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

fn argument(n: usize) -> String {
    std::env::args().nth(n).expect("usage: everyday-redis-rs PORT TLS_PORT CA CLUSTER_PORT")
}

fn library() -> RedisResult<Client> {
    Client::open(format!("redis://127.0.0.1:{}/?protocol=resp3", argument(1)))
}

fn connect() -> RedisResult<Connection> {
    library()?.get_connection()
}

fn wait_until(mut is_reached: impl FnMut() -> RedisResult<bool>) -> Outcome {
    let begin = Instant::now();
    while !is_reached()? {
        assert!(begin.elapsed() < PATIENCE, "not reached");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn pool() -> Outcome {
    let pool = r2d2::Pool::builder().max_size(4).build(library()?)?;
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut connection = pool.get().expect("a connection");
                    connection.incr::<_, _, ()>("pool", 1).expect("INCR");
                }
            });
        }
    });
    let count: i64 = pool.get()?.get("pool")?;
    assert_eq!(count, 3200);
    Ok(())
}

fn pipeline() -> Outcome {
    let mut client = connect()?;
    let mut requests = pipe();
    for n in 0..5000 {
        requests.set(format!("pipe:{n}"), n);
    }
    let replies: Vec<Value> = requests.query(&mut client)?;
    assert_eq!(replies, vec![Value::Okay; 5000]);
    assert_eq!(client.get::<_, i64>("pipe:4999")?, 4999);
    Ok(())
}

fn transactions() -> Outcome {
    let (mut client, mut other) = (connect()?, connect()?);
    client.set::<_, _, ()>("account", 10)?;
    let mut runs = Vec::new();
    let (left,): (i64,) = transaction(&mut client, &["account"], |client, pipe| {
        let left = client.get::<_, i64>("account")? - 1;
        // The first try fails: another client changes the watched key.
        if runs.is_empty() {
            other.set::<_, _, ()>("account", 5)?;
        }
        runs.push(left);
        pipe.set("account", left).ignore().get("account").query(client)
    })?;
    assert_eq!((left, runs), (4, vec![9, 4]));
    Ok(())
}

fn blocking_pop() -> Outcome {
    let (mut client, mut waiter) = (connect()?, connect()?);
    let popped = spawn(move || waiter.blpop::<_, Vec<String>>("jobs", 60.0));
    wait_until(|| {
        Ok(cmd("INFO").arg("clients").query::<String>(&mut client)?.contains("blocked_clients:1"))
    })?;
    client.rpush::<_, _, ()>("jobs", "work")?;
    assert_eq!(popped.join().expect("no panic")?, ["jobs", "work"]);
    Ok(())
}

fn manager_config() -> ConnectionManagerConfig {
    ConnectionManagerConfig::new()
        .set_min_delay(Duration::from_millis(10))
        .set_number_of_retries(10)
}

/// The manager returns the error of the lost connection once, and then uses the new one.
async fn repeat_incr(victim: &mut ConnectionManager) -> RedisResult<i64> {
    match victim.incr("n", 1).await {
        Err(error) if error.is_io_error() || error.is_unrecoverable_error() => {
            victim.incr("n", 1).await
        }
        reply => reply,
    }
}

async fn reconnection() -> Outcome {
    let mut client = connect()?;
    let mut victim = library()?.get_connection_manager_with_config(manager_config()).await?;
    for n in 1..=20 {
        let id: i64 = cmd("CLIENT").arg("ID").query_async(&mut victim).await?;
        let killed: i64 = cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut client)?;
        assert_eq!((killed, repeat_incr(&mut victim).await?), (1, n));
    }
    Ok(())
}

async fn next(
    pushes: &mut UnboundedReceiver<PushInfo>,
    kind: PushKind,
) -> Result<Vec<Value>, Box<dyn Error>> {
    loop {
        let push = timeout(PATIENCE, pushes.recv()).await?.ok_or("no more messages")?;
        if push.kind == kind {
            return Ok(push.data);
        }
    }
}

async fn lost_subscription() -> Outcome {
    let mut client = connect()?;
    let (sender, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = manager_config().set_push_sender(sender).set_automatic_resubscription();
    let mut subscriber = library()?.get_connection_manager_with_config(config).await?;
    subscriber.subscribe("news").await?;
    client.publish::<_, _, ()>("news", "one")?;
    assert_eq!(
        from_redis_value::<String>(next(&mut pushes, PushKind::Message).await?.remove(1))?,
        "one"
    );
    cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").exec(&mut client)?;
    // It subscribes again by itself.
    next(&mut pushes, PushKind::Disconnection).await?;
    wait_until(|| Ok(client.publish::<_, _, i64>("news", "two")? == 1))?;
    assert_eq!(
        from_redis_value::<String>(next(&mut pushes, PushKind::Message).await?.remove(1))?,
        "two"
    );
    Ok(())
}

fn streams() -> Outcome {
    let mut client = connect()?;
    for n in 0..100 {
        client.xadd_maxlen::<_, _, _, _, ()>(
            "events",
            StreamMaxlen::Approx(1000),
            "*",
            &[("n", n)],
        )?;
    }
    client.xgroup_create::<_, _, _, ()>("events", "workers", 0)?;
    let (mut seen, options) =
        (Vec::new(), StreamReadOptions::default().group("workers", "w1").count(16));
    loop {
        let batch: Option<StreamReadReply> = client.xread_options(&["events"], &[">"], &options)?;
        let Some(key) = batch.and_then(|batch| batch.keys.into_iter().next()) else { break };
        for entry in key.ids {
            seen.push(entry.get::<i64>("n").expect("a field"));
            assert_eq!(client.xack::<_, _, _, i64>("events", "workers", &[entry.id])?, 1);
        }
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    Ok(())
}

fn scripts() -> Outcome {
    let (mut client, add) = (connect()?, Script::new(ADD));
    assert_eq!(add.key("script").arg(2).invoke::<i64>(&mut client)?, 2);
    // NOSCRIPT: the library loads it.
    cmd("SCRIPT").arg("FLUSH").exec(&mut client)?;
    assert_eq!(add.key("script").arg(3).invoke::<i64>(&mut client)?, 5);
    Ok(())
}

async fn caching() -> Outcome {
    let mut other = connect()?;
    other.set::<_, _, ()>("cached", "old")?;
    let config = AsyncConnectionConfig::new().set_cache_config(CacheConfig::default());
    let mut client = library()?.get_multiplexed_async_connection_with_config(&config).await?;
    for _ in 0..100 {
        assert_eq!(client.get::<_, String>("cached").await?, "old");
    }
    assert_eq!(client.get_cache_statistics().expect("a cache").hit, 99);
    other.set::<_, _, ()>("cached", "new")?;
    let begin = Instant::now();
    while client.get::<_, String>("cached").await? != "new" {
        assert!(begin.elapsed() < PATIENCE, "no invalidation");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn tls() -> Outcome {
    let certificates =
        TlsCertificates { client_tls: None, root_cert: Some(std::fs::read(argument(3))?) };
    let address = format!("rediss://localhost:{}", argument(2));
    let mut client = Client::build_with_tls(address, certificates)?.get_connection()?;
    client.set::<_, _, ()>("tls", "x".repeat(1_000_000))?;
    assert_eq!(client.get::<_, String>("tls")?.len(), 1_000_000);
    Ok(())
}

async fn cluster() -> Outcome {
    let library = ClusterClient::new(vec![format!("redis://127.0.0.1:{}", argument(4))])?;
    let values: HashMap<String, i64> = (0..100).map(|n| (format!("key:{n}"), n)).collect();
    let mut shared = library.get_async_connection().await?;
    for (key, value) in &values {
        shared.set::<_, _, ()>(key, value).await?;
    }
    let mut client = library.get_connection()?;
    for (key, value) in &values {
        assert_eq!(client.get::<_, i64>(key)?, *value);
    }
    Ok(())
}

async fn run() -> Outcome {
    let done = |name: &str| println!("{name}");
    pool()?;
    done("pool");
    pipeline()?;
    done("pipeline");
    transactions()?;
    done("transaction");
    blocking_pop()?;
    done("blocking pop");
    reconnection().await?;
    done("reconnection");
    lost_subscription().await?;
    done("lost subscription");
    streams()?;
    done("streams");
    scripts()?;
    done("scripts");
    caching().await?;
    done("client-side caching");
    tls()?;
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
