//! Runs scripts here and by EVAL on a Valkey server, and prints the replies that differ.
//!
//! ```text
//! valkey-server --port 7461 --bind 127.0.0.1 --save ''
//! cargo run -p weft-script --example script_compare -- 7461 [FILE | COUNT SEED]
//! ```
//!
//! A script is a line of FILE; without one, of `scripts.txt`; or COUNT scripts are generated. The commands of a script run on
//! the same server, whose data are deleted
//! before each script. With `--record` it prints the server's replies, for the unit tests of the interpreter
//! (`src/lua/interpreter/replies.txt`). With `--results FILE` it prints FILE, whose scripts return strings, with the
//! server's results: for the unit tests of the libraries (`src/lua/libs/tests/valkey.txt`).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use weft_resp::{Proto, Reply};
use weft_script::engine::{Failure, Host, Input, Interpreter, Level, Stop};
use weft_script::lua::Lua;
use weft_script::sha_of;
use weft_testkit::rng::Rng;
use weft_testkit_differential::scripts;

const SCRIPTS: &str = include_str!("scripts.txt");
const KEYS: [&[u8]; 2] = [b"k1", b"k2"];
const ARGS: [&[u8]; 2] = [b"a1", b"a2"];

/// A connection to the server.
struct Connection {
    stream: BufReader<TcpStream>,
    proto: Proto,
}

impl Connection {
    fn open(port: u16) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60)))?;
        Ok(Connection { stream: BufReader::new(stream), proto: Proto::Resp2 })
    }

    fn speak(&mut self, proto: Proto) -> std::io::Result<()> {
        if self.proto != proto {
            self.proto = proto;
            let version: &[u8] = if proto == Proto::Resp3 { b"3" } else { b"2" };
            self.call(&[b"HELLO", version])?;
        }
        Ok(())
    }

    fn call(&mut self, args: &[&[u8]]) -> std::io::Result<Vec<u8>> {
        let mut request = Reply::new(Proto::Resp2);
        request.array(args.len());
        args.iter().for_each(|arg| request.bulk(arg));
        self.stream.get_mut().write_all(request.contiguous().unwrap_or_default())?;
        let mut reply = Vec::new();
        self.read(&mut reply)?;
        Ok(reply)
    }

    /// Appends one reply.
    fn read(&mut self, reply: &mut Vec<u8>) -> std::io::Result<()> {
        let mut left = 1;
        while left > 0 {
            left -= 1;
            let from = reply.len();
            self.stream.read_until(b'\n', reply)?;
            let line = &reply[from..];
            let number: i64 = std::str::from_utf8(&line[1..])
                .ok()
                .and_then(|text| text.trim_end().parse().ok())
                .unwrap_or(0);
            match line[0] {
                b'$' | b'=' | b'!' if number >= 0 => {
                    let end = reply.len();
                    reply.resize(end + number as usize + 2, 0);
                    self.stream.read_exact(&mut reply[end..])?;
                }
                b'*' | b'~' | b'>' => left += number.max(0),
                b'%' => left += 2 * number,
                b'|' => left += 2 * number + 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The words of the server's errors when a script calls the command.
fn error_in_script(reply: Vec<u8>) -> Vec<u8> {
    const WORDS: [(&[u8], &[u8]); 2] = [
        (b"-ERR unknown command", b"-ERR Unknown command called from script\r\n"),
        (
            b"-ERR wrong number of arguments for",
            b"-ERR Wrong number of args calling command from script\r\n",
        ),
    ];
    let known = WORDS.iter().find(|(begin, _)| reply.starts_with(begin));
    known.map_or(reply, |(_, words)| words.to_vec())
}

impl Host for Connection {
    fn call(&mut self, args: &[&[u8]], reply: &mut Reply) -> Result<(), Stop> {
        let info = self.call(&[b"COMMAND", b"INFO", args[0]]).map_err(|_| Stop)?;
        if info.windows(9).any(|part| part == b"+noscript") {
            reply.error(b"ERR This Valkey command is not allowed from script");
            return Ok(());
        }
        self.speak(reply.proto).map_err(|_| Stop)?;
        let bytes = self.call(args).map_err(|_| Stop)?;
        reply.raw(&error_in_script(bytes));
        Ok(())
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        let info = self.call(&[b"COMMAND", b"INFO", args[0]]).ok()?;
        (info.len() > 20).then_some(true)
    }

    fn set_repl(&mut self, _: bool, _: bool) {}
}

fn run(lua: &mut Lua, host: &mut Connection, proto: Proto, script: &[u8]) -> Vec<u8> {
    let mut reply = Reply::new(proto);
    let sha = sha_of(script);
    let result = lua.compile(&sha, script).map_err(Failure::Error).and_then(|()| {
        let input = Input { keys: &KEYS, args: &ARGS };
        lua.run(&sha, input, host, &mut reply)
    });
    match result {
        Ok(()) => {}
        Err(Failure::Error(text)) => {
            reply.clear();
            reply.error(&text);
        }
        Err(Failure::Stopped) => {
            reply.clear();
            reply.error(b"STOPPED");
        }
    }
    reply.slices(0, usize::MAX).concat()
}

/// A reply in one line, at most this long.
fn shown(reply: &[u8], most: usize) -> String {
    reply[..reply.len().min(most)].escape_ascii().to_string()
}

/// The string or integer in a reply, or the text of its error without the position at the end.
fn result(reply: &[u8]) -> &[u8] {
    let reply = reply.strip_suffix(b"\r\n").unwrap_or(reply);
    match reply {
        [b'$', rest @ ..] => rest.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default(),
        [_, rest @ ..] => rest.strip_suffix(b" script: on @user_script:1.").unwrap_or(rest),
        [] => reply,
    }
}

/// Prints the scripts of a file with the server's results. Lines that begin with `#`, and empty ones, stay.
fn print_results(client: &mut Connection, file: &str) -> std::io::Result<()> {
    for line in std::fs::read_to_string(file)?.lines().filter(|line| !line.starts_with("= ")) {
        println!("{line}");
        if !line.is_empty() && !line.starts_with('#') {
            let reply = client.call(&[b"EVAL", line.as_bytes(), b"0"])?;
            println!("= {}", result(&reply).escape_ascii());
        }
    }
    Ok(())
}

/// The scripts that the arguments name.
fn scripts(args: &[&String]) -> std::io::Result<Vec<Vec<u8>>> {
    if let [count, seed] = args {
        let (count, seed): (u64, u64) = (count.parse().unwrap_or(1), seed.parse().unwrap_or(1));
        return Ok((0..count).map(|n| scripts::script(&mut Rng::new(seed << 32 | n))).collect());
    }
    let file = args.first().map(std::fs::read_to_string).transpose()?;
    let lines = file.as_deref().unwrap_or(SCRIPTS).lines().filter(|line| !line.is_empty());
    Ok(lines.map(|line| line.as_bytes().to_vec()).collect())
}

fn main() -> std::io::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [port, option, file] = &args[..]
        && option == "--results"
    {
        print_results(&mut Connection::open(port.parse().unwrap_or(6379))?, file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let records = args.iter().any(|arg| arg == "--record");
    let args: Vec<&String> = args.iter().filter(|arg| *arg != "--record").collect();
    let port = args.first().and_then(|port| port.parse().ok()).unwrap_or(6379);
    let (mut client, mut host) = (Connection::open(port)?, Connection::open(port)?);
    let mut lua = Lua::new();
    let (mut runs, mut differences) = (0, 0);
    for script in scripts(args.get(1..).unwrap_or_default())? {
        for proto in [Proto::Resp2, Proto::Resp3] {
            runs += 1;
            client.speak(proto)?;
            client.call(&[b"FLUSHALL"])?;
            let words: [&[u8]; 3] = [b"EVAL", &script, b"2"];
            let theirs =
                client.call(&[&words[..], &KEYS, &ARGS].concat()).inspect_err(|error| {
                    println!("{}\n  {error}", String::from_utf8_lossy(&script));
                })?;
            if records {
                let version = if proto == Proto::Resp3 { 3 } else { 2 };
                println!(
                    "{version} {}\n  {}",
                    String::from_utf8_lossy(&script),
                    theirs.escape_ascii()
                );
                continue;
            }
            client.call(&[b"FLUSHALL"])?;
            let ours = run(&mut lua, &mut host, proto, &script);
            if ours != theirs {
                differences += 1;
                println!(
                    "{}\n  theirs {}\n  ours   {}",
                    String::from_utf8_lossy(&script),
                    shown(&theirs, 400),
                    shown(&ours, 400)
                );
            }
        }
    }
    if !records {
        println!("{runs} runs, {differences} different");
    }
    Ok(if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
