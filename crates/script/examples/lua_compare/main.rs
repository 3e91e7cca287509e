//! Compares the libraries of scripts (`bit`, `cjson`, `cmsgpack`, `struct`) with those of a Valkey server: runs generated
//! scripts on both and prints the differences.
//!
//! ```text
//! cargo run -p weft-script --example lua_compare -- 127.0.0.1:6379 50000 1
//! ```
//!
//! The arguments are the server's address, the number of scripts and the seed.

mod generate;

use generate::{PRELUDE, Random, script};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use weft_resp::{Proto, Reply};
use weft_script::engine::{Failure, Host, Input, Interpreter, Level, Sha, Stop};
use weft_script::lua::Lua;

/// A host without commands.
struct NoHost;

impl Host for NoHost {
    fn call(&mut self, _: &[&[u8]], _: &mut Reply) -> Result<(), Stop> {
        Err(Stop)
    }

    fn interrupt(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_repl(&mut self, _: bool, _: bool) {}
}

fn run_here(lua: &mut Lua, source: &[u8]) -> Vec<u8> {
    let sha = Sha([b'0'; 40]);
    if let Err(error) = lua.compile(&sha, source) {
        return [b"-", &error[..], b"\r\n"].concat();
    }
    let mut reply = Reply::new(Proto::Resp2);
    let result = lua.run(&sha, Input { keys: &[], args: &[] }, &mut NoHost, &mut reply);
    lua.forget(&sha);
    match result {
        Ok(()) => reply.slices(0, usize::MAX).concat(),
        Err(Failure::Error(error)) => [b"-", &error[..], b"\r\n"].concat(),
        Err(Failure::Stopped) => b"stopped".to_vec(),
    }
}

struct Server(BufReader<TcpStream>);

impl Server {
    fn run(&mut self, source: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut request = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n", source.len()).into_bytes();
        request.extend_from_slice(source);
        request.extend_from_slice(b"\r\n$1\r\n0\r\n");
        self.0.get_mut().write_all(&request)?;
        let mut reply = Vec::new();
        self.0.read_until(b'\n', &mut reply)?;
        if let Some(len) = reply.strip_prefix(b"$") {
            let len: usize = String::from_utf8_lossy(len).trim().parse().unwrap_or(0);
            let from = reply.len();
            reply.resize(from + len + 2, 0);
            self.0.read_exact(&mut reply[from..])?;
        }
        Ok(reply)
    }
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, count, seed] = &args[..] else {
        eprintln!("usage: lua_compare ADDR COUNT SEED");
        std::process::exit(2);
    };
    let (count, seed): (u64, u64) = (count.parse().unwrap_or(1), seed.parse().unwrap_or(1));
    let mut server = Server(BufReader::new(TcpStream::connect(address)?));
    let mut lua = Lua::new();
    let mut differences = 0;
    for n in 0..count {
        let source = script(&mut Random::new(seed << 32 | n));
        let (here, there) = (run_here(&mut lua, source.as_bytes()), server.run(source.as_bytes())?);
        if here != there {
            differences += 1;
            println!("script {n}: {}", source.strip_prefix(PRELUDE).unwrap_or_default());
            println!("  here:  {}", here.escape_ascii());
            println!("  there: {}", there.escape_ascii());
        }
    }
    println!("{count} scripts, {differences} differences");
    std::process::exit(i32::from(differences > 0));
}
