//! A plan for people: a map of the machine, lines for configuration files, commands.

mod lines;
mod map;

use weft_base::machine::Machine;

use super::model::{Plan, Scheme};

/// The whole text of a plan.
pub fn text(machine: &Machine, plan: &Plan) -> String {
    let mut out = map::text(machine, plan);
    let scheme = match plan.scheme {
        Scheme::Dedicated => "Interrupts on CPUs of their own: ",
        Scheme::Spread => "Interrupts over the CPUs of the servers: ",
        Scheme::None => "Interrupts are unchanged: ",
    };
    out.push_str(&format!("\n{scheme}{}.\n", plan.reason));
    for note in &plan.notes {
        out.push_str(&format!("Note: {note}\n"));
    }
    out.push_str(&lines::configuration(plan));
    out.push_str(&lines::commands(plan));
    out
}
