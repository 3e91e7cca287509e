//! Hides secret arguments: passwords in MONITOR, SLOWLOG and the log.

use crate::command_table::Cmd;
use weft_command_spec::Secrets;

/// The text shown instead of a secret.
const HIDDEN: &[u8] = b"(redacted)";

fn is_sensitive(id: weft_config::Id) -> bool {
    id.directive().flags.contains(weft_config::Flags::SENSITIVE)
}

/// The arguments, with secrets replaced.
pub fn hide_secrets<'a>(cmd: &Cmd, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = args.to_vec();
    match cmd.spec.special.secrets {
        Secrets::AllArguments => {
            let names = if cmd.full_name.contains('|') { 2 } else { 1 };
            shown.iter_mut().skip(names).for_each(|arg| *arg = HIDDEN);
        }
        Secrets::AfterAuth => hide_in_hello(&mut shown),
        Secrets::Migrate => hide_in_migrate(&mut shown),
        Secrets::Directives => {
            for pair in 1..args.len() / 2 {
                let (name, value) = (pair * 2, pair * 2 + 1);
                let id = weft_config::Id::from_name(args[name]);
                if value < args.len() && id.is_some_and(is_sensitive) {
                    shown[value] = HIDDEN;
                }
            }
        }
        Secrets::None => {}
    }
    shown
}

/// Hides name and password after each AUTH. The word after SETNAME is always a name.
fn hide_in_hello(words: &mut [&[u8]]) {
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let is = |option: &[u8]| word.eq_ignore_ascii_case(option);
        let values = match () {
            () if is(b"auth") => 2,
            () if is(b"setname") => 1,
            () => 0,
        };
        if values == 2 {
            words.iter_mut().skip(at + 1).take(values).for_each(|value| *value = HIDDEN);
        }
        at += 1 + values;
    }
}

/// Hides the arguments of AUTH and AUTH2. The words after KEYS are keys.
fn hide_in_migrate(words: &mut [&[u8]]) {
    const OPTIONS: usize = 6;
    let mut at = OPTIONS;
    while let Some(word) = words.get(at) {
        let values = match word.to_ascii_lowercase().as_slice() {
            b"keys" => return,
            b"auth" => 1,
            b"auth2" => 2,
            _ => 0,
        };
        words.iter_mut().skip(at + 1).take(values).for_each(|value| *value = HIDDEN);
        at += 1 + values;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hide: fn(&mut [&[u8]]), cases: &[(&str, &str)]) {
        for (line, hidden) in cases {
            let mut words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            hide(&mut words);
            let words: Vec<_> =
                words.iter().map(|word| if *word == HIDDEN { b"-" } else { *word }).collect();
            assert_eq!(words.join(&b' '), hidden.as_bytes(), "{line}");
        }
    }

    #[test]
    fn passwords_of_migrate_are_hidden() {
        check(
            hide_in_migrate,
            &[
                ("migrate h 1 k 0 5 copy AUTH p", "migrate h 1 k 0 5 copy AUTH -"),
                ("migrate h 1 k 0 5 auth2 u p replace", "migrate h 1 k 0 5 auth2 - - replace"),
                (
                    "migrate h 1 '' 0 5 auth keys keys auth b",
                    "migrate h 1 '' 0 5 auth - keys auth b",
                ),
                ("migrate h 1 k 0 5 auth2 u", "migrate h 1 k 0 5 auth2 -"),
                ("migrate h 1 auth 0 5", "migrate h 1 auth 0 5"),
                ("migrate", "migrate"),
            ],
        );
    }

    #[test]
    fn passwords_of_hello_are_hidden_at_any_position() {
        check(
            hide_in_hello,
            &[
                ("hello 3 AUTH u p", "hello 3 AUTH - -"),
                ("hello 3 setname auth auth u p", "hello 3 setname auth auth - -"),
                ("hello 3 auth u p AUTH u p", "hello 3 auth - - AUTH - -"),
                ("hello 3 auth auth p setname n", "hello 3 auth - - setname n"),
                ("hello 3 x auth u", "hello 3 x auth -"),
                ("hello auth", "hello auth"),
                ("hello", "hello"),
            ],
        );
    }
}
