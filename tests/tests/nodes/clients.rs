//! Client libraries through failovers and reshards, under load: `tests/clients/`.

use crate::on_each;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use weft_testkit::cluster::cli::Cli;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::skipped;
use weft_tests::env_or;

on_each!(redis_py_survives_failovers_and_reshards);

/// A client in another language; see `tests/clients/python/cluster.py` for the orders that it takes.
struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// `None`, with a note, if it isn't installed.
    fn start(name: &str, cluster: &Cluster) -> Option<Program> {
        let Some(folder) = env::var_os("CLIENTS_BIN") else {
            skipped::note_here("no CLIENTS_BIN: .ci/clients installs client libraries");
            return None;
        };
        let program = Path::new(&folder).join(name);
        if !program.is_file() {
            skipped::note_here(&format!("no {name} in CLIENTS_BIN"));
            return None;
        }
        let mut child = Command::new(program)
            .args(cluster.nodes.iter().map(|node| node.port().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client can be run");
        let orders = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Some(Program { child, orders, answers })
    }

    #[track_caller]
    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("the client reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the client answers");
        assert!(!answer.is_empty() && !answer.starts_with("failed"), "{order}: {answer}");
        answer
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn redis_py_survives_failovers_and_reshards(kind: Kind) {
    let Some(cli) = Cli::find() else { return };
    // A killed primary may take acknowledged writes with it: only a quorum prevents that.
    let settings = Settings::of(9).with_weft(&["--cluster-write-quorum", "1"]);
    let Some(mut cluster) = Cluster::formed(kind, 3, settings) else { return };
    let Some(mut program) = Program::start("redis-py-cluster", &cluster) else { return };
    program.order("settled");
    for round in 0..env_or("CLUSTER_ROUNDS", 2u16) {
        let slot = 100 + 5461 * (round % 3);
        let old = cluster.owner(slot).expect("all slots have an owner");
        let new = cluster.replicas_of(old)[0];
        program.order("strict");
        cluster.client(new).ok(&["CLUSTER", "FAILOVER"]);
        cluster.wait_until("the replica leads", || cluster.owner(slot) == Some(new));
        println!("{kind:?}: after a failover: {}", program.order("settled"));

        cluster.settle();
        let from = cluster.id(new);
        let other = cluster.owner((slot + 5461) % 16384).expect("all slots have an owner");
        let to = cluster.id(other);
        let entry = cluster.nodes[old].address();
        let moved = [
            "--cluster-from",
            &from,
            "--cluster-to",
            &to,
            "--cluster-slots",
            "60",
            "--cluster-yes",
        ];
        cli.run(&[&["reshard", &entry][..], &moved].concat()).expect_ok();
        println!("{kind:?}: after a reshard: {}", program.order("settled"));
        cluster.settle();

        program.order("lenient");
        let victim = cluster.owner(slot).expect("all slots have an owner");
        cluster.nodes[victim].kill();
        println!("{kind:?}: after a kill: {}", program.order("settled"));
        cluster.nodes[victim].start();
        cluster.settle();
        program.order("settled");
    }
    assert_eq!(program.order("end"), "done\n");
}
