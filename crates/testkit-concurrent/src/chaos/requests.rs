//! The requests: steps of the differential grammar, any command of the server's table with any
//! arguments, and requests for difficult cases: waits, short lifetimes, large values.

use weft_testkit::Client;
use weft_testkit::client::{encode, encode_into};
use weft_testkit::rng::Rng;
use weft_testkit_differential::generate::{Action, Step};
use weft_testkit_differential::{Deck, Group};

/// Rules of the grammar that would end the run rather than disturb it: a password locks all others
/// out, a sleep only waits, and a server without clients is not disturbed. Commands that are
/// answered by pushes are left out too: here each request has one reply.
const LEFT_OUT: [&str; 4] = ["requirepass", "DEBUG SLEEP", "SKIPME no", PUSHED];

/// Commands that are not sent with random arguments.
const NOT_AT_RANDOM: [&str; 10] = [
    "SHUTDOWN",
    "DEBUG",
    "MONITOR",
    "MULTI",
    // It would resolve invalid host names.
    "REPLICAOF",
    "SLAVEOF",
    // They make the connection a replica's, or are not answered: see `roles`.
    "SYNC",
    "PSYNC",
    "REPLCONF",
    // Without replicas they would wait for a random number of milliseconds: see `WAITING`.
    "WAIT",
];

/// Part of the names of commands that are answered by pushes.
const PUSHED: &str = "SUBSCRIBE";

/// Elements of a large value: more than an I/O thread may process at once.
const ELEMENTS: usize = 3000;

/// Arguments of random commands.
const WORDS: [&str; 24] = [
    "k1",
    "k2",
    "k3",
    "{a}1",
    "{a}2",
    "7",
    "0",
    "1",
    "-1",
    "2",
    "10",
    "0.01",
    "1.5",
    "LEFT",
    "RIGHT",
    "MAX",
    "NX",
    "XX",
    "COUNT",
    "BY",
    "",
    "*",
    "9223372036854775807",
    "nosuch",
];

/// Clients that wait for others, and the commands that serve them. `K` stands for a key, `Q` for one of a
/// few lists, `L` for a large value, `N` for a small number, `T` for a timeout, `M` for one in milliseconds.
const WAITING: &[&str] = &[
    "BLPOP Q Q T",
    "BRPOP Q T",
    "BLMOVE Q Q LEFT RIGHT T",
    "BLMPOP T 2 Q Q LEFT COUNT 3",
    "BRPOPLPUSH Q Q T",
    "BZPOPMIN z1 z2 T",
    "BZMPOP T 1 z1 MAX",
    "RPUSH Q N N",
    "LPUSH Q N",
    "RPUSH Q N",
    "ZADD z1 N N",
    "DEL Q Q z1 z2",
    "RENAME Q Q",
    "SET Q N",
    "WATCH K Q",
    "WAIT 1 M",
    "WAIT 2 M",
    "WAITAOF 0 1 M",
    "WAITAOF 1 1 M",
];

/// Keys and fields with a short lifetime.
const SHORT_LIVED: &[&str] = &[
    "SET K v PX N",
    "PEXPIRE K N",
    "PEXPIRE Q N",
    "HSET h1 N N",
    "HPEXPIRE h1 N FIELDS 2 N N",
    "HGETEX h1 PX N FIELDS 1 N",
    "HGETALL h1",
    "GETEX K PX N",
    "PERSIST K",
    "PEXPIRE L N",
    "RANDOMKEY",
    "SCAN 0 COUNT N",
    "DBSIZE",
];

/// Commands that take long with a large value and run in the slow lane.
const LARGE: &[&str] = &[
    "LRANGE L 0 -1",
    "SORT L ALPHA",
    "SORT L ALPHA STORE L",
    "SUNIONSTORE L L L",
    "SMEMBERS L",
    "HGETALL L",
    "ZRANGE L 0 -1 WITHSCORES",
    "ZUNIONSTORE L 2 L L",
    "COPY L L REPLACE",
    "KEYS *",
    "DEL L",
    "UNLINK L",
    "LREM L 0 N",
    "DEBUG POPULATE 4000",
    "DEBUG DIGEST",
    "FLUSHALL",
    "SWAPDB 0 1",
];

/// Commands with replies much larger than requests.
const TALKATIVE: &[&str] = &["LRANGE L 0 -1", "SMEMBERS L", "COMMAND", "KEYS *"];

/// Timeouts of waits; most are short, since a waiting client does nothing else.
const TIMEOUTS: [&str; 9] = ["0.001", "0.001", "0.002", "0.005", "0.01", "0.01", "0.05", "0", "3"];

/// The bytes of requests, and the number of their replies.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub bytes: Vec<u8>,
    pub answered: usize,
}

impl Batch {
    fn add<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        encode_into(args, &mut self.bytes);
        self.answered += 1;
    }
}

/// Generates requests.
pub struct Source {
    deck: Deck,
    names: Vec<String>,
    without: Vec<String>,
}

impl Source {
    /// A source for the server of `client`. It leaves out requests of this file and rules of the
    /// grammar that contain one of `without`. So a run can search for other faults despite a known
    /// one.
    pub fn new(client: &mut Client, without: &[String]) -> Source {
        let list = client.cmd(&["COMMAND", "LIST"]);
        let names: Vec<String> =
            list.items().iter().map(|name| name.text().to_ascii_uppercase()).collect();
        let mut deck = Deck::new(&Group::ALL.map(|group| (group, 10)));
        deck.keep_optional(&names.iter().cloned().collect());
        let left_out = LEFT_OUT.iter().copied().chain(without.iter().map(String::as_str));
        let left_out: Vec<&str> = left_out.collect();
        deck.retain(|rule| !left_out.iter().any(|word| rule.rule.syntax.contains(word)));
        let names = names
            .into_iter()
            .filter(|name| !name.contains('|') && !NOT_AT_RANDOM.contains(&name.as_str()))
            .filter(|name| !name.contains(PUSHED))
            .filter(|name| !without.contains(name));
        Source { deck, names: names.collect(), without: without.to_vec() }
    }

    /// Some requests.
    pub fn batch(&self, rng: &mut Rng) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..1 + rng.below(12) {
            match rng.below(20) {
                0..=11 => self.of_grammar(rng, &mut batch),
                12 | 13 => self.at_random(rng, &mut batch),
                14..=16 => self.fill(rng, WAITING, &mut batch),
                17 | 18 => self.fill(rng, SHORT_LIVED, &mut batch),
                19 if rng.percent(40) => make_large(rng, &mut batch),
                _ => self.fill(rng, LARGE, &mut batch),
            }
        }
        batch
    }

    /// Requests whose replies are much larger than the requests.
    pub fn with_large_replies(&self, rng: &mut Rng) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..20 + rng.below(200) {
            self.fill(rng, TALKATIVE, &mut batch);
        }
        batch
    }

    /// One of `lines`, with its placeholders replaced.
    fn fill(&self, rng: &mut Rng, lines: &[&str], batch: &mut Batch) {
        let line = *rng.pick(lines);
        if self.without.iter().any(|word| line.contains(word.as_str())) {
            return;
        }
        let args: Vec<String> = line
            .split(' ')
            .map(|word| match word {
                "K" => format!("k{}", 1 + rng.below(4)),
                "Q" => format!("q{}", rng.below(4)),
                "L" => format!("large{}", rng.below(3)),
                "N" => rng.below(20).to_string(),
                "T" => rng.pick(&TIMEOUTS).to_string(),
                "M" => rng.pick(&["1", "5", "20", "100", "0"]).to_string(),
                other => other.to_string(),
            })
            .collect();
        batch.add(&args);
    }

    fn of_grammar(&self, rng: &mut Rng, batch: &mut Batch) {
        let Step(actions) = self.deck.draw(rng);
        for action in &actions {
            if let Action::Send(command) = action {
                command.encode_into(&mut batch.bytes);
                batch.answered += usize::from(command.answered);
            }
        }
    }

    fn at_random(&self, rng: &mut Rng, batch: &mut Batch) {
        let mut args = vec![rng.pick(&self.names).as_str()];
        args.extend((0..rng.below(6)).map(|_| *rng.pick(&WORDS)));
        batch.add(&args);
    }
}

fn make_large(rng: &mut Rng, batch: &mut Batch) {
    let maker = *rng.pick(&["RPUSH", "SADD", "ZADD", "HSET"]);
    let mut args = vec![maker.to_string(), format!("large{}", rng.below(3))];
    for n in 0..ELEMENTS {
        if matches!(maker, "ZADD" | "HSET") {
            args.push(n.to_string());
        }
        args.push(format!("element{n}"));
    }
    batch.add(&args);
}

/// Bytes that are not a request.
pub fn garbage(rng: &mut Rng) -> Vec<u8> {
    match rng.below(6) {
        0 => rng.bytes(300),
        1 => b"*3\r\n$3\r\nSET\r\n$-1\r\n".to_vec(),
        2 => b"*1000000\r\n$1\r\nx\r\n".to_vec(),
        3 => b"*2\r\n$3\r\nGET\r\n$600000000\r\nabc".to_vec(),
        4 => b"GET \"unbalanced\r\n".to_vec(),
        _ => {
            let mut bytes = encode(&["SET", "k1", "value"]);
            let at = rng.below(bytes.len());
            bytes[at] = rng.next_u64() as u8;
            bytes
        }
    }
}
