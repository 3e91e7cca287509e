//! Arguments that must not be shown: passwords in MONITOR, SLOWLOG and the log.

use crate::dispatch::Cmd;

/// What stands in the place of a secret.
const HIDDEN: &[u8] = b"(redacted)";

fn is_sensitive(id: weft_config::Id) -> bool {
    id.directive().flags.contains(weft_config::Flags::SENSITIVE)
}

/// The arguments with those that are secrets replaced.
pub fn hide_secrets<'a>(cmd: &Cmd, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = args.to_vec();
    match cmd.full_name {
        "auth" => shown.iter_mut().skip(1).for_each(|a| *a = HIDDEN),
        "hello" => {
            let auth = args.iter().position(|a| a.eq_ignore_ascii_case(b"auth"));
            if let Some(at) = auth {
                shown.iter_mut().skip(at + 1).take(2).for_each(|a| *a = HIDDEN);
            }
        }
        "config|set" => {
            for pair in 1..args.len() / 2 {
                let (name, value) = (pair * 2, pair * 2 + 1);
                let id = weft_config::Id::from_name(args[name]);
                if value < args.len() && id.is_some_and(is_sensitive) {
                    shown[value] = HIDDEN;
                }
            }
        }
        _ => {}
    }
    shown
}
