//! On which CPUs threads run: from the `*-cpulist` directives and the machine to a mask for each
//! thread.
//!
//! | directive | threads |
//! |---|---|
//! | `server-cpulist` | I/O threads; slow-lane threads may use all of the list |
//! | `bio-cpulist` | the thread that frees memory; threads that write and sync the append-only file |
//! | `bgsave-cpulist` | threads that write snapshots |
//! | `aof-rewrite-cpulist` | threads that rewrite the append-only file |
//!
//! If a list has at least as many CPUs as there are I/O threads, each thread gets one CPU,
//! distinct cores of one node first ([`Machine::preferred`]). With fewer, each thread may use all
//! of the list. `auto` means all CPUs that the process may use; for background threads, those
//! that the I/O threads don't use, if any. Without a list nothing is set, and the mask from
//! `taskset` or the control group applies.
//!
//! Memory needs no rule: Linux allocates a page on the node of the CPU that touches it first,
//! which is the node of the thread that stores the value.

use weft_base::cpulist::{self, CpuSet};
use weft_base::machine::Machine;
use weft_base::topology;
use weft_config::{Config, Id};
use weft_process::log_warning;

/// The value of one directive.
#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    Unset,
    Auto,
    Cpus(CpuSet),
}

/// The CPU masks. With an empty mask a thread keeps the inherited one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// For each I/O thread.
    pub io: Vec<CpuSet>,
    pub slow: CpuSet,
    pub bio: CpuSet,
    pub save: CpuSet,
    /// For rewriting the append-only file.
    pub rewrite: CpuSet,
}

impl Placement {
    /// The masks for `threads` I/O threads of a process that may use `allowed`.
    ///
    /// # Errors
    /// A list that is malformed, or names a CPU that does not exist or is not allowed: a message
    /// for the operator.
    pub fn of(
        config: &Config,
        machine: &Machine,
        allowed: &CpuSet,
        threads: usize,
    ) -> Result<Self, String> {
        let read = |id| read(config, id, machine, allowed);
        let (server, bio) = (read(Id::SERVER_CPULIST)?, read(Id::BIO_CPULIST)?);
        let rewrite = read(Id::AOF_REWRITE_CPULIST)?;
        let save = read(Id::BGSAVE_CPULIST)?;
        let (io, slow) = match server {
            List::Unset => (vec![CpuSet::new(); threads], CpuSet::new()),
            List::Auto => (spread(machine, allowed, threads), allowed.clone()),
            List::Cpus(cpus) => (spread(machine, &cpus, threads), cpus),
        };
        let background = |list| match list {
            List::Unset => CpuSet::new(),
            List::Auto => left_over(allowed, &io),
            List::Cpus(cpus) => cpus,
        };
        let (bio, save, rewrite) = (background(bio), background(save), background(rewrite));
        Ok(Placement { io, slow, bio, save, rewrite })
    }
}

fn read(config: &Config, id: Id, machine: &Machine, allowed: &CpuSet) -> Result<List, String> {
    let text = config.str(id);
    let wrong = |why: String| format!("{} \"{text}\": {why}", id.name());
    let list = match text.trim() {
        "" => return Ok(List::Unset),
        "auto" => return Ok(List::Auto),
        list => cpulist::parse(list).map_err(|e| wrong(e.to_string()))?,
    };
    for cpu in list.iter() {
        if machine.cpu(cpu).is_none() && !allowed.contains(cpu) {
            let state = if machine.offline.contains(cpu) { "is offline" } else { "does not exist" };
            return Err(wrong(format!("CPU {cpu} {state}")));
        }
        if !allowed.contains(cpu) {
            return Err(wrong(format!(
                "CPU {cpu} is not allowed to this process, but {allowed} are"
            )));
        }
    }
    Ok(List::Cpus(list))
}

fn spread(machine: &Machine, cpus: &CpuSet, threads: usize) -> Vec<CpuSet> {
    let chosen = machine.preferred(cpus, threads);
    if chosen.len() < threads {
        return vec![cpus.clone(); threads];
    }
    chosen.into_iter().map(|cpu| CpuSet::from_iter([cpu])).collect()
}

fn left_over(allowed: &CpuSet, io: &[CpuSet]) -> CpuSet {
    let free: CpuSet =
        allowed.iter().filter(|cpu| !io.iter().any(|mask| mask.contains(*cpu))).collect();
    if free.is_empty() { allowed.clone() } else { free }
}

/// Binds the calling thread to `cpus`; an empty set changes nothing.
pub fn bind_to(cpus: &CpuSet) {
    if let Err(e) = topology::set_thread_affinity(cpus) {
        log_warning!("A thread can't be bound to CPUs {cpus}: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_config::LoadArgs;

    fn set(text: &str) -> CpuSet {
        cpulist::parse(text).unwrap()
    }

    /// Two nodes of four cores each, even CPUs on the first, without siblings; CPU 8 is offline.
    fn machine() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let cpus = "sys/devices/system/cpu";
        write(format!("{cpus}/online"), "0-7\n".into());
        write(format!("{cpus}/offline"), "8\n".into());
        write(format!("{cpus}/present"), "0-8\n".into());
        for cpu in 0..8 {
            let topology = format!("{cpus}/cpu{cpu}/topology");
            write(format!("{topology}/physical_package_id"), format!("{}\n", cpu % 2));
            write(format!("{topology}/core_id"), format!("{}\n", cpu / 2));
            write(format!("{topology}/thread_siblings_list"), format!("{cpu}\n"));
        }
        for (node, list) in [(0, "0,2,4,6"), (1, "1,3,5,7")] {
            let folder = format!("sys/devices/system/node/node{node}");
            write(format!("{folder}/cpulist"), format!("{list}\n"));
            write(
                format!("{folder}/distance"),
                (if node == 0 { "10 21\n" } else { "21 10\n" }).into(),
            );
        }
        write("sys/devices/system/node/online".into(), "0-1\n".into());
        write("proc/self/status".into(), "Cpus_allowed_list:\t0-7\n".into());
        Machine::read(folder.path())
    }

    fn place(pairs: &[(&str, &str)], allowed: &str, threads: usize) -> Result<Placement, String> {
        let directives =
            pairs.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_string()]);
        let args = match weft_config::cli::parse(directives.map(Into::into)) {
            weft_config::Cli::Run(args) => args,
            _ => LoadArgs::default(),
        };
        let config = Config::load(&args).unwrap();
        Placement::of(&config, &machine(), &set(allowed), threads)
    }

    fn texts(masks: &[CpuSet]) -> Vec<String> {
        masks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_lists_nothing_is_set() {
        let placed = place(&[], "0-7", 3).unwrap();
        assert_eq!(placed, Placement { io: vec![CpuSet::new(); 3], ..Placement::default() });
    }

    #[test]
    fn with_enough_cpus_each_thread_gets_one_of_one_node_first() {
        let placed = place(&[("server_cpulist", "auto")], "0-7", 4).unwrap();
        assert_eq!(texts(&placed.io), ["0", "2", "4", "6"]);
        assert_eq!(placed.slow, set("0-7"));
        let placed = place(&[("server-cpulist", "1-7:2")], "0-7", 3).unwrap();
        assert_eq!(texts(&placed.io), ["1", "3", "5"]);
        assert_eq!(placed.slow, set("1,3,5,7"));
        let placed = place(&[("server-cpulist", "auto")], "1-3", 3).unwrap();
        assert_eq!(texts(&placed.io), ["1", "3", "2"]);
    }

    #[test]
    fn too_few_cpus_are_shared() {
        let placed = place(&[("server-cpulist", "1,3")], "0-7", 3).unwrap();
        assert_eq!(texts(&placed.io), ["1,3"; 3]);
    }

    #[test]
    fn background_threads_use_the_remaining_cpus() {
        let lists = [("server-cpulist", "auto"), ("bio-cpulist", "auto")];
        assert_eq!(place(&lists, "0-7", 4).unwrap().bio, set("1,3,5,7"));
        assert_eq!(place(&lists, "0-1", 2).unwrap().bio, set("0-1"));
        assert_eq!(place(&[("bio_cpulist", "5-6")], "0-7", 4).unwrap().bio, set("5-6"));
        assert_eq!(place(&[("bgsave_cpulist", "5-6")], "0-7", 4).unwrap().save, set("5-6"));
    }

    #[test]
    fn impossible_lists_are_reported() {
        for (name, value, wanted) in [
            ("server-cpulist", "0,9", "server-cpulist \"0,9\": CPU 9 does not exist"),
            ("server-cpulist", "8", "server-cpulist \"8\": CPU 8 is offline"),
            (
                "bio-cpulist",
                "7",
                "bio-cpulist \"7\": CPU 7 is not allowed to this process, but 0-5 are",
            ),
            ("bgsave-cpulist", "99", "bgsave-cpulist \"99\": CPU 99 does not exist"),
            (
                "aof-rewrite-cpulist",
                "3-1",
                "aof-rewrite-cpulist \"3-1\": the range '3-1' ends before it begins",
            ),
            (
                "server-cpulist",
                "zero",
                "server-cpulist \"zero\": 'zero' is not a CPU, a range a-b, or a-b:stride",
            ),
        ] {
            assert_eq!(place(&[(name, value)], "0-5", 2), Err(wanted.to_string()));
        }
    }
}
