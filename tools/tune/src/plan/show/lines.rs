//! A plan as configuration lines and as commands, to carry it out by hand.

use std::fmt::Write;

use crate::plan::model::{Instance, Interface, Plan};

/// Lines for the servers' configuration files. All of them are read at the start only.
pub fn configuration(plan: &Plan) -> String {
    let mut out = String::from("\nConfiguration, read when a server starts:\n");
    for instance in &plan.instances {
        let Instance { name, threads, server, background, .. } = instance;
        let _ = write!(
            out,
            "  # {name}\n  io-threads {threads}\n  server_cpulist {server}\n  \
             bio_cpulist {background}\n  aof_rewrite_cpulist {background}\n  \
             bgsave_cpulist {background}\n"
        );
    }
    out
}

/// Commands that do the same to running servers, and to the interrupts, until the next start.
pub fn commands(plan: &Plan) -> String {
    let mut out =
        String::from("\nCommands, as root (`weft-tune apply` does this, thread by thread):\n");
    for instance in &plan.instances {
        let process = match instance.process {
            Some(process) => process.pid.to_string(),
            None => "PID".to_string(),
        };
        let _ = writeln!(out, "  taskset -acp {} {process}  # {}", instance.mask(), instance.name);
    }
    for interface in &plan.interfaces {
        write_interface(interface, &mut out);
    }
    out.push_str("\nFor good, in the [Service] section of a unit of systemd:\n");
    for instance in &plan.instances {
        let _ = writeln!(out, "  # {}\n  CPUAffinity={}", instance.name, instance.mask());
    }
    out
}

fn write_interface(interface: &Interface, out: &mut String) {
    let name = &interface.name;
    for irq in &interface.irqs {
        let (cpus, number) = (&irq.cpus, irq.number);
        let _ =
            writeln!(out, "  echo {cpus} > /proc/irq/{number}/smp_affinity_list  # {}", irq.name);
    }
    for (queues, file) in [(&interface.receive, "rps_cpus"), (&interface.transmit, "xps_cpus")] {
        for queue in queues {
            let (mask, queue) = (queue.cpus.mask(), &queue.name);
            let _ = writeln!(out, "  echo {mask} > /sys/class/net/{name}/queues/{queue}/{file}");
        }
    }
}
