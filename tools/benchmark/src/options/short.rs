//! The short help: the output of `-h` without a host.
//!
//! valkey-benchmark takes `-h` for the host. So only a `-h` at the end of the command line, which
//! is an error there, requests help.

/// The whole text.
pub fn short_help() -> String {
    format!(
        "Usage: weft-benchmark [OPTIONS] [--] [COMMAND ARGS...]\n\nPuts load on a Redis-compatible \
         server. Prints requests/s, latency and CPU.\n\n{EXAMPLES}\n{OPTIONS}"
    )
}

/// Examples, also of the full help.
pub const EXAMPLES: &str = "\
Examples:
  weft-benchmark -t set,get -n 1000000 -r 100000    SET and GET of 100,000 keys
  weft-benchmark -t get -P 16 --duration 10         pipelined GET for 10 seconds
  weft-benchmark -t get --rps 20000 --duration 60   latency at a fixed rate
  weft-benchmark -t get --vs 127.0.0.1:6380         compares two servers
  weft-benchmark -n 1000 lpush list __rand_int__    a command of your own
";

/// The most common options.
const OPTIONS: &str = "\
Server:
  -h <hostname>, -p <port>     address [127.0.0.1, 6379]; -s <socket> for a path
  -a <password>, --user        login; --tls for an encrypted connection
Load:
  -t <tests>                   these tests instead of all: set,get,lpush,...
  -n <requests>                requests for each test [100000]
  --duration <seconds>         a time for each test instead
  -c <clients>, -P <numreq>    connections [50], requests in flight on each [1]
  -d <size>                    size of values in bytes [3]
  -r <keyspacelen>             random keys from 0 to keyspacelen - 1
  --rps <requests>             fixed rate: latency counts from the due time
  --mix <tests>                a mix, for example GET:8,SET:2
  --threads <num>              generator threads
Output:
  --full                       percentile distribution and settings of each test
  -q, --csv, --json            one line for each test, CSV, JSON

weft-benchmark --help lists all options and tests.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Raw;
    use clap::CommandFactory;

    #[test]
    fn short_help_names_existing_options_only() {
        let command = Raw::command();
        let known: Vec<String> = command
            .get_arguments()
            .flat_map(|arg| {
                let short = arg.get_short().map(|c| format!("-{c}"));
                short.into_iter().chain(arg.get_long().map(|name| format!("--{name}")))
            })
            .collect();
        let help = short_help();
        let words = help.split([' ', ',', ';', '\n', '[', ']']);
        let options: Vec<&str> =
            words.filter(|word| word.len() > 1 && word.starts_with('-') && *word != "--").collect();
        assert!(options.len() > 20, "{options:?}");
        for option in options {
            assert!(known.iter().any(|name| name == option), "{option}");
        }
    }

    #[test]
    fn short_help_fits_a_small_terminal() {
        let help = short_help();
        assert!(help.lines().all(|line| line.len() <= 80), "{help}");
        assert!(help.lines().count() <= 40, "{help}");
    }
}
