//! Every command of the guides works: each page runs from its first block to its last, in a folder of its own.
//!
//! [`page`] has the rules for blocks, [`session`] the temporary machine. A block that no test can run says why in its info
//! string. A page needs nothing but the server and the tools for most of its blocks. Where a program is missing, the rest
//! of the page is skipped with a line, since later blocks rely on earlier ones.

mod page;
mod session;

use std::fs;
use std::path::{Path, PathBuf};

use page::{Action, Block};
use session::Session;
use weft_testkit::{locate, skipped};

/// Pages with commands in `docs/`, apart from the design pages.
const PAGES: [&str; 14] = [
    "clients.md",
    "cluster.md",
    "configure.md",
    "install.md",
    "metrics.md",
    "moving.md",
    "page.md",
    "persistence.md",
    "replication.md",
    "scaling.md",
    "secure.md",
    "start.md",
    "top.md",
    "tune.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(root().join("docs").join(page)).expect("a page");
    page::blocks(&text).unwrap_or_else(|e| panic!("docs/{page}, {e}"))
}

/// Whether a file of tests mentions the page.
fn mentions(file: &str, page: &str) -> bool {
    fs::read_to_string(root().join(file)).is_ok_and(|text| text.contains(&format!("docs/{page}")))
}

/// Runs a page; `before` is what its reader has already done.
#[track_caller]
fn run(page: &str, before: &[Before]) {
    let mut session = Session::new();
    for step in before {
        match step {
            Before::Server(command) => session.serve(command).expect("a server for the page"),
            Before::Command(command) => assert!(session.run(command).succeeded, "{command}"),
        }
    }
    let (mut ran, mut not) = (0, Vec::new());
    for block in read(page) {
        if let Action::NoTest(why) = &block.action {
            not.push(format!("line {}: {why}", block.line));
            continue;
        }
        if matches!(block.action, Action::Ignore | Action::TestedBy(_)) {
            continue;
        }
        if let Some(program) = session.missing(&block.text) {
            let rest = format!("docs/{page} from line {}", block.line);
            return skipped::note(&rest, &format!("no {program}"));
        }
        if let Err(why) = run_block(&mut session, &block) {
            panic!("docs/{page}, line {}:\n{}\n{why}", block.line, block.text);
        }
        ran += 1;
    }
    println!("docs/{page}: {ran} blocks ran, {} did not", not.len());
    not.iter().for_each(|line| println!("  {line}"));
}

/// A step before the first block of a page.
enum Before {
    Server(&'static str),
    Command(&'static str),
}

fn run_block(session: &mut Session, block: &Block) -> Result<(), String> {
    match block.action {
        Action::Run => {
            let ran = session.run(&block.text);
            ran.succeeded.then_some(()).ok_or_else(|| ran.output + &ran.errors)
        }
        Action::Serve => session.serve(&block.text),
        Action::Configure => session.configure(&block.text),
        Action::Send => session.send(&block.text),
        Action::Write(ref name) => session.write(name, &block.text),
        Action::Compare => {
            for (command, shown) in page::commands(&block.text) {
                let ran = session.run(&command);
                let printed = ran.output + &ran.errors;
                // A page may show a failure.
                let is_as_shown = match shown.is_empty() {
                    true => ran.succeeded,
                    false => page::is_like(&session.replace(&shown), &printed),
                };
                if !is_as_shown {
                    return Err(format!("{command}printed:\n{printed}"));
                }
            }
            Ok(())
        }
        Action::NoTest(_) | Action::TestedBy(_) | Action::Ignore => Ok(()),
    }
}

/// The page of a reader who has nothing yet.
#[test]
fn start() {
    run("start.md", &[]);
}

#[test]
fn persistence() {
    run("persistence.md", &[Before::Server("weft-server --appendonly yes")]);
}

#[test]
fn replication() {
    run("replication.md", &[]);
}

/// From Valkey, by replication and by a file. `operate/moving_page.rs` has the steps that change roles.
#[test]
fn moving() {
    if locate::valkey().is_none() {
        return skipped::note("docs/moving.md", "no valkey-server");
    }
    run(
        "moving.md",
        &[
            Before::Command("echo maxmemory 100mb > /etc/redis/redis.conf"),
            Before::Server("valkey-server --port 6379 --repl-diskless-sync-delay 0"),
        ],
    );
}

#[test]
fn secure() {
    run("secure.md", &[]);
}

#[test]
fn watch() {
    run("top.md", &[Before::Server("weft-server")]);
    run("metrics.md", &[]);
    run("page.md", &[]);
}

#[test]
fn cluster() {
    run("cluster.md", &[]);
}

#[test]
fn configure() {
    run("configure.md", &[]);
}

#[test]
fn tune() {
    run("tune.md", &[Before::Server("weft-server")]);
}

/// No page with commands is forgotten, and every block of a page has a mark that holds.
#[test]
fn every_block_has_a_mark() {
    let files = fs::read_dir(root().join("docs")).expect("the folder");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    for page in names.filter(|name| name.ends_with(".md")) {
        let blocks = read(&page);
        let has_commands = blocks.iter().any(|block| block.action != Action::Ignore);
        assert!(!has_commands || PAGES.contains(&page.as_str()), "docs/{page} is not in PAGES");
        for block in blocks {
            if let Action::TestedBy(file) = block.action {
                assert!(mentions(&file, &page), "{file} doesn't mention docs/{page}");
            }
        }
    }
}
