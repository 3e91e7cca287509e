//! The program from outside: sweeps on a real server, killed, resumed, disturbed, and the report
//! and advice made from their files.
//!
//! The server is valkey-server from `PEERS_BIN` or PATH; without it these tests skip with a note.
//! The load comes from a script that prints a generator's output, so that a cell takes milliseconds
//! and its figures are known; one test uses the real generator.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

const TUNE: &str = env!("CARGO_BIN_EXE_weft-tune");

/// A program of the peers; notes if it is missing.
fn peer(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("PEERS_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.into_iter().chain(std::env::split_paths(&path)).map(|dir| dir.join(name));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        weft_testkit::skipped::note_here(&format!("no {name} in PEERS_BIN or PATH"));
    }
    found
}

/// A folder with a fake generator.
struct Place {
    dir: TempDir,
    server: PathBuf,
}

impl Place {
    fn new() -> Option<Self> {
        let place = Self { server: peer("valkey-server")?, dir: TempDir::new().unwrap() };
        place
            .script("generator", "sleep 0.02\nprintf '\"GET\",\"1000.50\"\\n\"SET\",\"900\"\\n'\n");
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        // The version is printed at once in any case.
        let version = "case \"$1\" in --version) echo a script; exit ;; esac";
        fs::write(&path, format!("#!/bin/sh\n{version}\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A sweep of 8 cells on `server`.
    fn sweep(&self, server: &Path) -> Command {
        let mut command = Command::new(TUNE);
        command.arg("sweep").arg("--server").arg(format!("s={}", server.display()));
        command.args(["--io-threads", "1,2", "--commands", "get,set", "--repeats", "2"]);
        command.args(["--measure", "1000", "--warmup", "0", "--output"]).arg(self.path("r.jsonl"));
        command.arg("--generator").arg(self.path("generator"));
        command.stdin(Stdio::null());
        command
    }

    fn lines(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.path("r.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The cells of the file, each as text.
    fn cells(&self) -> Vec<String> {
        let cells = self.lines();
        cells.iter().filter_map(|line| Some(line.get("cell")?.get("key")?.to_string())).collect()
    }

    fn tune(&self, args: &[&str]) -> Output {
        Command::new(TUNE).args(args).current_dir(self.dir.path()).output().unwrap()
    }
}

#[track_caller]
fn passed(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_sweep_records_each_cell_once() {
    let Some(place) = Place::new() else { return };
    passed(&place.sweep(&place.server).output().unwrap());
    let cells = place.cells();
    assert_eq!((cells.len(), cells.iter().collect::<BTreeSet<_>>().len()), (8, 8));
    let header = &place.lines()[0]["header"];
    assert!(header["servers"][0]["version"].as_str().unwrap().contains("alkey"));
    let measured = &place.lines()[1]["cell"]["outcome"]["measured"];
    assert_eq!(measured["requests"], 1000);
    for figure in ["server_cpu_us", "server_switches", "generator_busy", "others_cpus"] {
        assert!(!measured[figure].is_null(), "{figure}: {measured}");
    }
    // Once more: nothing is left to do.
    let before = fs::read(place.path("r.jsonl")).unwrap();
    passed(&place.sweep(&place.server).output().unwrap());
    assert_eq!(fs::read(place.path("r.jsonl")).unwrap(), before);
}

#[test]
fn repeatedly_killed_sweep_records_the_same_cells() {
    let Some(place) = Place::new() else { return };
    for round in 0..3 {
        let mut child = place.sweep(&place.server).stderr(Stdio::null()).spawn().unwrap();
        // Until it has recorded one more cell, or is done.
        for _ in 0..3000 {
            if place.cells().len() > round || child.try_wait().unwrap().is_some() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        child.wait().unwrap();
    }
    // And the power fails in the middle of a line.
    let mut bytes = fs::read(place.path("r.jsonl")).unwrap();
    bytes.truncate(bytes.len() - 20);
    fs::write(place.path("r.jsonl"), bytes).unwrap();
    let output = place.sweep(&place.server).output().unwrap();
    passed(&output);
    assert!(said(&output).contains("cut in half"), "{}", said(&output));
    assert!(said(&output).contains("continuing: "), "{}", said(&output));
    let cells = place.cells();
    assert_eq!((cells.len(), cells.iter().collect::<BTreeSet<_>>().len()), (8, 8));
}

#[test]
fn ctrl_c_ends_it_cleanly_and_leaves_no_server() {
    let Some(place) = Place::new() else { return };
    place.script("generator", "echo $$ >> ../../generator.pids\nexec sleep 60\n");
    let mut sweep = place.sweep(&place.server);
    // The generator's folder is the server's, inside of this one.
    fs::create_dir(place.path("tmp")).unwrap();
    sweep.env("TMPDIR", place.path("tmp"));
    let child = sweep.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pids = || fs::read_to_string(place.path("generator.pids")).unwrap_or_default();
    for _ in 0..3000 {
        if !pids().is_empty() {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    let generator = pids().lines().next().expect("the generator runs").to_string();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("continues from there"), "{}", said(&output));
    assert!(!Path::new(&format!("/proc/{generator}")).exists());
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0, "a server's folder is left");
    assert!(place.cells().is_empty() && place.lines().len() == 1);
}

#[test]
fn a_killed_sweep_leaves_no_server_either() {
    let Some(place) = Place::new() else { return };
    let server = format!(
        "echo $$ >> {}\nexec {} \"$@\"\n",
        place.path("pids").display(),
        place.server.display()
    );
    let server = place.script("server", &server);
    place.script("generator", "sleep 60\n");
    let mut child = place.sweep(&server).stderr(Stdio::null()).spawn().unwrap();
    // The first process was asked for its directives, the second one is the first cell's.
    let pids = || fs::read_to_string(place.path("pids")).unwrap_or_default();
    let count = || pids().lines().count();
    for _ in 0..3000 {
        if count() >= 2 {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let last = pids().lines().last().unwrap().to_string();
    for _ in 0..3000 {
        // A zombie holds no port, although its parent has not waited for it.
        let stat = fs::read_to_string(format!("/proc/{last}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("server {last} lives on");
}

#[test]
fn two_sweeps_on_one_file_are_refused() {
    let Some(place) = Place::new() else { return };
    place.script("generator", "sleep 60\n");
    let mut first = place.sweep(&place.server).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..3000 {
        if place.lines().len() == 1 {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    let second = place.sweep(&place.server).output().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(said(&second).contains("in use by another sweep"), "{}", said(&second));
}

#[test]
fn file_that_cannot_grow_keeps_recorded_cells() {
    let Some(place) = Place::new() else { return };
    // The limit on the size of files simulates a full disk. It also holds for the server's log,
    // which stays below it.
    let sweep = place.sweep(&place.server);
    let words: Vec<String> = [sweep.get_program()]
        .into_iter()
        .chain(sweep.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let script = format!("trap '' XFSZ; ulimit -f 4; exec {}", words.join(" "));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("are kept") && text.contains("run the same command again"), "{text}");
    let kept = place.cells();
    assert!(!kept.is_empty() && kept.len() < 8, "{} cells", kept.len());
    assert!(fs::read(place.path("r.jsonl")).unwrap().ends_with(b"\n"), "half a line is left");
    passed(&place.sweep(&place.server).output().unwrap());
    assert_eq!(place.cells()[..kept.len()], kept);
    assert_eq!(place.cells().len(), 8);
}

#[test]
fn a_server_that_dies_costs_its_cells_only() {
    let Some(place) = Place::new() else { return };
    // With two threads it dies under load, while a file exists. The generator waits longer than
    // that, with any number of threads.
    fs::write(place.path("unlucky"), "").unwrap();
    let unlucky = place.path("unlucky").display().to_string();
    place.script(
        "generator",
        &format!("[ -e {unlucky} ] && sleep 2\nprintf '\"GET\",\"1000\"\\n\"SET\",\"900\"\\n'\n"),
    );
    let server = place.script(
        "server",
        &format!(
            "case \"$*\" in *'--io-threads 2'*)\n\
             [ -e {unlucky} ] && (sleep 1; echo 'out of luck'; kill -9 $$) & ;; esac\n\
             exec {} \"$@\"\n",
            place.server.display()
        ),
    );
    let output = place.sweep(&server).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("4 of 8 cells have failed"), "{}", said(&output));
    assert_eq!(place.cells().len(), 8);
    let failed: Vec<serde_json::Value> = place
        .lines()
        .into_iter()
        .filter(|line| !line["cell"]["outcome"]["failed"].is_null())
        .collect();
    assert_eq!(failed.len(), 4);
    let failure = &failed[0]["cell"]["outcome"]["failed"];
    assert!(failure["reason"].as_str().unwrap().contains("signal: 9"), "{failure}");
    assert!(failure["log"].to_string().contains("out of luck"), "{failure}");
    // The report shows them, and they run again on request.
    let report = place.tune(&["report", "r.jsonl"]);
    passed(&report);
    assert!(String::from_utf8_lossy(&report.stdout).contains("Runs that failed"));
    // Nothing is left to do, and the failed cells are still recorded.
    let output = place.sweep(&server).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    fs::remove_file(place.path("unlucky")).unwrap();
    passed(&place.sweep(&server).arg("--retry-failed").output().unwrap());
    let report = place.tune(&["report", "r.jsonl"]);
    assert!(!String::from_utf8_lossy(&report.stdout).contains("Runs that failed"));
}

#[test]
fn unknown_directive_is_left_out_with_a_remark() {
    let Some(place) = Place::new() else { return };
    let server = place.script(
        "server",
        &format!(
            "case \"$*\" in *io-threads-do-reads*) echo \">>> 'io-threads-do-reads'\"; exit 1; esac\n\
             exec {} \"$@\"\n",
            place.server.display()
        ),
    );
    // No grid sets it, so there is no remark.
    passed(&place.sweep(&server).output().unwrap());
    let remarks = place.lines()[1]["cell"]["remarks"].to_string();
    assert!(!remarks.contains("io-threads-do-reads"), "{remarks}");
    fs::remove_file(place.path("r.jsonl")).unwrap();
    passed(&place.sweep(&server).args(["--reads", "off"]).output().unwrap());
    let remarks = place.lines()[1]["cell"]["remarks"].to_string();
    assert!(remarks.contains("io-threads-do-reads is unknown to this server"), "{remarks}");
    assert!(place.lines()[1]["cell"]["outcome"]["measured"].is_object());
}

/// A server that supports auto, and writes its options to a file; the other one does not.
#[test]
fn servers_keep_their_settings_and_auto_needs_support() {
    let Some(place) = Place::new() else { return };
    let server = place.script(
        "server",
        &format!(
            "echo \"$*\" >> {}\nfor word; do shift; [ \"$word\" = auto ] && word=2; set -- \"$@\" \
             \"$word\"; done\nexec {} \"$@\"\n",
            place.path("told").display(),
            place.server.display()
        ),
    );
    let output = Command::new(TUNE)
        .args(["sweep", "--io-threads", "1,auto", "--commands", "get", "--repeats", "2"])
        .args(["--measure", "100", "--warmup", "0", "--output", "r.jsonl"])
        .arg("--server")
        .arg(format!("knows={}", server.display()))
        .arg("--server")
        .arg(format!("plain={}", place.server.display()))
        .arg("--generator")
        .arg(place.path("generator"))
        .current_dir(place.dir.path())
        .output()
        .unwrap();
    passed(&output);
    let count = |server: &str, threads: serde_json::Value| {
        let keys = place.lines();
        let keys = keys.iter().filter_map(|line| line["cell"].get("key"));
        keys.filter(|key| key["server"] == server && key["io_threads"] == threads).count()
    };
    assert_eq!((count("knows", "auto".into()), count("knows", 1.into())), (2, 2));
    assert_eq!((count("plain", "auto".into()), count("plain", 1.into())), (0, 2));
    assert!(said(&output).contains("plain: does not know io-threads auto"), "{}", said(&output));
    let lines = place.lines();
    assert!(lines[1..].iter().all(|line| line["cell"]["key"]["reads"] == "own"));
    assert_eq!(lines[0]["header"]["servers"][0]["own_io_threads"], 1);
    // the cells of the sweep: none sets reads on the server
    let told = fs::read_to_string(place.path("told")).unwrap();
    assert!(told.lines().rev().take(2).all(|line| !line.contains("do-reads")), "{told}");
    let report = place.tune(&["report", "r.jsonl"]);
    passed(&report);
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains("| auto |") && text.contains("knows, reads "), "{text}");
    assert!(text.contains("| best: ") && text.contains("knows to plain"), "{text}");
}

#[test]
fn advice_asks_for_the_configuration() {
    let Some(place) = Place::new() else { return };
    recorded(place.dir.path());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut running = Command::new(&place.server)
        .args(["--port", &port.to_string(), "--io-threads", "2", "--save", ""])
        .current_dir(place.dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let advise = || place.tune(&["advise", "hand.jsonl", "--port", &port.to_string()]);
    let mut output = advise();
    for _ in 0..3000 {
        if output.status.success() {
            break;
        }
        sleep(Duration::from_millis(10));
        output = advise();
    }
    running.kill().unwrap();
    running.wait().unwrap();
    passed(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains(&format!("Now, as the server on port {port} says: io-threads 2")),
        "{text}"
    );
    assert!(text.contains("**No change**"), "{text}");
    // Without it, it is unknown, since the file was written by hand.
    let text = place.tune(&["advise", "hand.jsonl"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("The present configuration is not known"), "{text}");
    for symbol in ["* λ: ", "* σ, contention: ", "* κ, coherency: "] {
        assert!(text.contains(symbol), "{symbol}: {text}");
    }
    // The generator limited four threads; more than three is a guess.
    assert!(text.contains("about ") && text.contains("a guess"), "{text}");
}

#[test]
fn wrong_use_has_a_clear_message() {
    let Some(place) = Place::new() else { return };
    let server = format!("s={}", place.server.display());
    for (args, code, message) in [
        (&["sweep", "--no-such-option"][..], 2, "unexpected argument"),
        (&["sweep"], 1, "no server to measure"),
        (&["sweep", "--server", "s=/no/such/server"], 1, "is not a program"),
        (&["sweep", "--server", &server, "--io-threads", "0"], 1, "io-threads: 0"),
        (&["sweep", "--server", &server, "--server-cpus", "60000"], 1, "none may be used"),
        (&["sweep", "--server", &server, "--generator", "/no/such"], 1, "is not a program"),
        (&["sweep", "--server", "s=/bin/false"], 1, "does not start"),
        (&["sweep", "--server", &server, "--resume"], 1, "nothing to resume"),
        (&["doctor", "--root", "/no/such"], 2, "there is no such folder"),
        (&["report", "missing"], 1, "cannot read missing"),
        (&["report"], 1, "no results"),
        (&["report", "diary"], 1, "is not a results file"),
        (&["advise", "--published", "--fit-threads", "x"], 2, "x"),
        (&["advise", "--published", "--weights", "NOPE:1"], 1, "NOPE was not measured"),
        (&["advise", "--published", "--now", "many"], 2, "--now"),
        (&["advise", "--published", "--port", "1"], 1, "cannot ask the server on port 1"),
    ] {
        fs::write(place.path("diary"), "dear diary\n").unwrap();
        let generator = place.path("generator");
        let mut command = Command::new(TUNE);
        command.args(args).current_dir(place.dir.path());
        if args[0] == "sweep" && !args.contains(&"--generator") && code == 1 {
            command.arg("--generator").arg(generator);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{args:?}: {}", said(&output));
    }
    assert_eq!(fs::read(place.path("diary")).unwrap(), b"dear diary\n");
}

#[test]
fn names_of_tests_are_checked_before_the_first_server_starts() {
    let Some(place) = Place::new() else { return };
    let generator = Path::new(TUNE).with_file_name("weft-benchmark");
    if !generator.exists() {
        return println!("skipped: {} is not built", generator.display());
    }
    let output = Command::new(TUNE)
        .args(["sweep", "--commands", "get,nosuch", "--output"])
        .arg(place.path("r.jsonl"))
        .arg("--server")
        .arg(format!("s={}", place.server.display()))
        .arg("--generator")
        .arg(generator)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("There is no test \"nosuch\""), "{}", said(&output));
    assert!(!place.path("r.jsonl").exists());
}

#[test]
fn the_real_generator_is_understood() {
    let (Some(place), Some(generator)) = (Place::new(), peer("valkey-benchmark")) else { return };
    let output = Command::new(TUNE)
        .args(["sweep", "--io-threads", "1", "--commands", "get,lpop,spop,mset", "--repeats", "1"])
        .args(["--measure", "2000", "--warmup", "200", "--output"])
        .arg(place.path("r.jsonl"))
        .arg("--server")
        .arg(format!("s={}", place.server.display()))
        .arg("--generator")
        .arg(generator)
        .output()
        .unwrap();
    passed(&output);
    assert_eq!(place.cells().len(), 4);
    for line in &place.lines()[1..] {
        let measured = &line["cell"]["outcome"]["measured"];
        assert!(measured["rps"].as_f64().unwrap() > 0.0, "{line}");
        assert!(measured["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "{line}");
        assert!(!line["cell"].to_string().contains("ran out of elements"), "{line}");
    }
    passed(&place.tune(&["report", "r.jsonl", "--html", "r.html", "--csv", "r.csv"]));
    let page = fs::read_to_string(place.path("r.html")).unwrap();
    assert!(page.contains("grid.toml") && page.contains("Server CPU per request"));
}

/// A sweep of four threads, written by hand, with a gain that ends at two.
fn recorded(place: &Path) {
    let published =
        Command::new(TUNE).args(["report", "--published", "--json", "-"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&published.stdout).unwrap();
    let mut header = report["sweeps"][0].clone();
    header.as_object_mut().unwrap().retain(|name, _| name != "source" && name != "notes");
    let mut text = format!("{}\n", serde_json::json!({ "header": header }));
    for (threads, rps) in [(1, 100.0), (2, 170.0), (3, 171.0), (4, 170.5)] {
        for (repeat, factor) in [(1, 0.99), (2, 1.0), (3, 1.01)] {
            let cell = serde_json::json!({ "cell": {
                "key": { "server": "s", "placement": "p", "io_threads": threads, "reads": false,
                    "data_bytes": 64, "command": "GET", "clients": 50, "pipeline": 1,
                    "repeat": repeat },
                "outcome": { "measured": { "rps": rps * factor, "requests": 1000,
                    "generator_busy": if threads == 4 { 0.95 } else { 0.3 } } },
            }});
            text += &format!("{cell}\n");
        }
    }
    fs::write(place.join("hand.jsonl"), text).unwrap();
}

#[test]
fn advice_from_a_sweep_of_its_own() {
    let Some(place) = Place::new() else { return };
    let output = Command::new(TUNE)
        .args(["advise", "--seconds", "0.02", "--json", "a.json", "--server"])
        .arg(format!("s={}", place.server.display()))
        .arg("--generator")
        .arg(place.path("generator"))
        .current_dir(place.dir.path())
        .output()
        .unwrap();
    passed(&output);
    let recorded = fs::read_to_string(place.path("advise.jsonl")).unwrap();
    // Four thread counts and more, two commands, three repeats, and the header.
    assert!(recorded.lines().count() > 4 * 2 * 3, "{recorded}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    assert_eq!(json[0]["server"], "s");
    // The generator reports the same for every setting.
    assert!(json[0]["advice"]["change"].is_null(), "{json}");
    assert!(json[0]["advice"]["gains"].as_array().is_some_and(|gains| gains.len() >= 3), "{json}");
}

#[test]
fn advice_from_a_file_and_a_report_with_marks() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    let run =
        |args: &[&str]| Command::new(TUNE).args(args).current_dir(dir.path()).output().unwrap();
    let output = run(&["advise", "hand.jsonl", "--json", "a.json"]);
    passed(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("**Change to: io-threads 2,"), "{text}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("a.json")).unwrap()).unwrap();
    assert_eq!(json[0]["advice"]["change"]["setting"]["io_threads"], 2);
    let output = run(&["advise", "hand.jsonl", "--now", "2"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("**No change**"));
    let output = run(&["report", "hand.jsonl"]);
    passed(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("| 4 | 170 (169–172) † |"), "{text}");
    assert!(text.contains("| 2 | 170 (168–172) |"), "{text}");
}
