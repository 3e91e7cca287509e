//! The values that the configuration files of sysctl set at the next start.
//!
//! By sysctl.d(5), the `*.conf` files of several folders are read in the order of their names. A
//! file in `/etc` hides those of the same name elsewhere, and of several lines for one variable the
//! last counts. `/etc/sysctl.conf` comes last, as with `sysctl --system`. If it is not read at all,
//! as by systemd alone, distributions link it as `99-sysctl.conf`.

use std::collections::BTreeMap;

use crate::host::Host;

/// Folders in ascending priority: a later one hides files of the earlier ones.
const FOLDERS: [&str; 4] =
    ["usr/lib/sysctl.d", "usr/local/lib/sysctl.d", "run/sysctl.d", "etc/sysctl.d"];

/// Name, such as `vm.swappiness`, to value and file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctl(BTreeMap<String, (String, String)>);

impl Sysctl {
    /// Reads the files.
    pub fn read(host: &Host) -> Sysctl {
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for folder in FOLDERS {
            for name in host.entries(folder).into_iter().filter(|name| name.ends_with(".conf")) {
                let path = format!("{folder}/{name}");
                files.insert(name, path);
            }
        }
        let mut set = Sysctl::default();
        for path in files.into_values().chain(["etc/sysctl.conf".to_string()]) {
            if let Some(text) = host.text(&path) {
                set.take(&text, &path);
            }
        }
        set
    }

    fn take(&mut self, text: &str, path: &str) {
        for line in text.lines().map(str::trim) {
            let comment = line.starts_with('#') || line.starts_with(';');
            if let Some((name, value)) = line.split_once('=').filter(|_| !comment) {
                // A leading "-" means that errors are ignored. Slashes are equivalent to dots.
                let name = name.trim().trim_start_matches('-').trim().replace('/', ".");
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                self.0.insert(name, (value, format!("/{path}")));
            }
        }
    }

    /// Whether the present value of a variable survives a restart, as text.
    pub fn lasting(&self, name: &str, now: &str) -> String {
        match self.0.get(name) {
            None => "no file of sysctl sets it: after a restart it has the kernel's default, or \
                     what other programs set"
                .to_string(),
            Some((value, file)) if value == now => format!("yes: {file} sets it"),
            Some((value, file)) => format!("no: {file} sets it to {value} at the next start"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::machines::Machine;

    #[test]
    fn the_last_line_of_the_last_name_counts() {
        let machine = Machine::empty();
        machine.write_all([
            ("usr/lib/sysctl.d/50-a.conf", "vm.swappiness = 1\nnet/core/somaxconn=128\n"),
            (
                "etc/sysctl.d/50-a.conf",
                "# vm.swappiness = 2\n-vm.swappiness=3\nvm.swappiness = 4\n",
            ),
            ("usr/lib/sysctl.d/60-b.conf", "kernel.numa_balancing = 0\nno line\n; c = d\n"),
            ("etc/sysctl.d/README", "vm.swappiness = 9\n"),
        ]);
        let read = || Sysctl::read(&Host::new(machine.root()));
        assert_eq!(read().lasting("vm.swappiness", "4"), "yes: /etc/sysctl.d/50-a.conf sets it");
        assert_eq!(
            read().lasting("vm.swappiness", "5"),
            "no: /etc/sysctl.d/50-a.conf sets it to 4 at the next start"
        );
        // The file of the same name is hidden as a whole.
        assert!(read().lasting("net.core.somaxconn", "128").starts_with("no file"));
        assert!(read().lasting("kernel.numa_balancing", "0").starts_with("yes"));
        machine.write("etc/sysctl.conf", "vm.swappiness=5\n");
        assert_eq!(read().lasting("vm.swappiness", "5"), "yes: /etc/sysctl.conf sets it");
    }
}
