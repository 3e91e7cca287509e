//! The direction of dependencies between our crates, read from their manifests.
//!
//! A crate may use the crates of all lower layers. Tests may also use the test kit; no shipped code
//! does.

use std::fs;
use std::io;
use std::path::Path;

use super::Problem;

/// Each crate with the crates it may depend on.
const LAYERS: &[(&str, &[&str])] = &[
    ("weft-base", &[]),
    ("weft-tls", &[]),
    ("weft-cluster-store", &["weft-tls", "weft-base"]),
    ("weft-resp", &["weft-base"]),
    ("weft-config", &["weft-base"]),
    ("weft-process", &["weft-base"]),
    ("weft-table", &["weft-base"]),
    ("weft-types", &["weft-table", "weft-base"]),
    ("weft-keyspace", &["weft-types", "weft-table", "weft-base"]),
    ("weft-command-spec", &["weft-base"]),
    ("weft-acl", &["weft-command-spec", "weft-base"]),
    ("weft-cluster", &["weft-base"]),
    (
        "weft-commands",
        &[
            "weft-command-spec",
            "weft-keyspace",
            "weft-types",
            "weft-table",
            "weft-resp",
            "weft-base",
        ],
    ),
    ("weft-persist", &["weft-types", "weft-table", "weft-resp", "weft-base"]),
    ("weft-replication", &["weft-cluster", "weft-resp", "weft-base"]),
    (
        "weft-transfer",
        &[
            "weft-base",
            "weft-command-spec",
            "weft-commands",
            "weft-keyspace",
            "weft-persist",
            "weft-process",
            "weft-resp",
            "weft-types",
        ],
    ),
    ("weft-memory", &["weft-process"]),
    ("weft-net", &["weft-memory", "weft-process", "weft-resp", "weft-tls"]),
    ("weft-scheduler", &["weft-base", "weft-config", "weft-process"]),
    ("weft-pubsub", &["weft-base", "weft-keyspace", "weft-memory", "weft-resp"]),
    (
        "weft-tracking",
        &["weft-command-spec", "weft-keyspace", "weft-memory", "weft-pubsub", "weft-resp"],
    ),
    ("weft-script", &["weft-resp", "weft-base"]),
    (
        "weft-state",
        &[
            "weft-acl",
            "weft-base",
            "weft-cluster",
            "weft-command-spec",
            "weft-commands",
            "weft-config",
            "weft-keyspace",
            "weft-memory",
            "weft-net",
            "weft-persist",
            "weft-process",
            "weft-pubsub",
            "weft-replication",
            "weft-resp",
            "weft-scheduler",
            "weft-script",
            "weft-table",
            "weft-tracking",
            "weft-tls",
            "weft-types",
        ],
    ),
    (
        "weft-executor",
        &[
            "weft-acl",
            "weft-base",
            "weft-cluster",
            "weft-command-spec",
            "weft-commands",
            "weft-config",
            "weft-keyspace",
            "weft-memory",
            "weft-process",
            "weft-pubsub",
            "weft-resp",
            "weft-scheduler",
            "weft-script",
            "weft-state",
            "weft-table",
            "weft-tracking",
            "weft-transfer",
            "weft-types",
        ],
    ),
    (
        "weft-cluster-links",
        &[
            "weft-cluster",
            "weft-commands",
            "weft-config",
            "weft-executor",
            "weft-memory",
            "weft-net",
            "weft-process",
            "weft-pubsub",
            "weft-resp",
            "weft-scheduler",
            "weft-state",
            "weft-tls",
        ],
    ),
    (
        "weft-durability",
        &[
            "weft-base",
            "weft-command-spec",
            "weft-commands",
            "weft-config",
            "weft-executor",
            "weft-keyspace",
            "weft-memory",
            "weft-persist",
            "weft-process",
            "weft-replication",
            "weft-resp",
            "weft-scheduler",
            "weft-state",
            "weft-types",
        ],
    ),
    (
        "weft-replication-driver",
        &[
            "weft-cluster",
            "weft-command-spec",
            "weft-commands",
            "weft-config",
            "weft-durability",
            "weft-executor",
            "weft-keyspace",
            "weft-memory",
            "weft-net",
            "weft-persist",
            "weft-process",
            "weft-pubsub",
            "weft-replication",
            "weft-resp",
            "weft-scheduler",
            "weft-state",
            "weft-table",
            "weft-tls",
        ],
    ),
    (
        "weft-cluster-driver",
        &[
            "weft-base",
            "weft-cluster",
            "weft-cluster-store",
            "weft-config",
            "weft-durability",
            "weft-executor",
            "weft-keyspace",
            "weft-process",
            "weft-replication",
            "weft-replication-driver",
            "weft-scheduler",
            "weft-state",
            "weft-tls",
            "weft-transfer",
        ],
    ),
    (
        "weft-admin",
        &[
            "weft-acl",
            "weft-base",
            "weft-cluster",
            "weft-cluster-driver",
            "weft-cluster-links",
            "weft-command-spec",
            "weft-commands",
            "weft-config",
            "weft-durability",
            "weft-executor",
            "weft-keyspace",
            "weft-memory",
            "weft-net",
            "weft-process",
            "weft-pubsub",
            "weft-replication",
            "weft-replication-driver",
            "weft-resp",
            "weft-scheduler",
            "weft-script",
            "weft-state",
            "weft-table",
            "weft-transfer",
            "weft-tls",
            "weft-types",
        ],
    ),
    (
        "weft-metrics",
        &[
            "weft-acl",
            "weft-admin",
            "weft-config",
            "weft-durability",
            "weft-executor",
            "weft-keyspace",
            "weft-net",
            "weft-process",
            "weft-replication-driver",
            "weft-scheduler",
            "weft-state",
            "weft-types",
        ],
    ),
    (
        "weft-io",
        &[
            "weft-acl",
            "weft-admin",
            "weft-base",
            "weft-cluster",
            "weft-commands",
            "weft-config",
            "weft-durability",
            "weft-executor",
            "weft-keyspace",
            "weft-memory",
            "weft-net",
            "weft-process",
            "weft-pubsub",
            "weft-replication",
            "weft-replication-driver",
            "weft-resp",
            "weft-scheduler",
            "weft-state",
            "weft-table",
            "weft-tracking",
            "weft-tls",
            "weft-types",
        ],
    ),
    (
        "weft-server",
        &[
            "weft-admin",
            "weft-cluster-driver",
            "weft-cluster-links",
            "weft-config",
            "weft-durability",
            "weft-executor",
            "weft-io",
            "weft-keyspace",
            "weft-memory",
            "weft-metrics",
            "weft-net",
            "weft-process",
            "weft-replication-driver",
            "weft-state",
            "weft-types",
        ],
    ),
    ("weft-testkit", &[]),
    ("weft-testkit-differential", &["weft-testkit"]),
    ("weft-testkit-concurrent", &["weft-testkit", "weft-testkit-differential"]),
    ("weft-tests", &["weft-testkit", "weft-testkit-concurrent", "weft-testkit-differential"]),
];

/// The crates that any crate may use in its tests and examples.
const FOR_TESTS: [&str; 2] = ["weft-testkit", "weft-testkit-differential"];

/// Tools: they use our crates only to read the files that the server reads.
const TOOLS: &[(&str, &[&str])] = &[
    ("xtask", &[]),
    ("weft-manual", &["weft-base"]),
    ("weft-connection", &["weft-tls"]),
    ("weft-benchmark", &["weft-connection", "weft-manual", "weft-resp", "weft-base"]),
    ("weft-tune", &["weft-connection", "weft-manual", "weft-config", "weft-resp", "weft-base"]),
];

/// Reports dependencies against the direction, in all manifests below `root`.
pub fn check(root: &Path, problems: &mut Vec<Problem>) -> io::Result<()> {
    for folder in ["crates", "tools"] {
        for entry in fs::read_dir(root.join(folder))? {
            check_manifest(
                root,
                &Path::new(folder).join(entry?.file_name()).join("Cargo.toml"),
                problems,
            )?;
        }
    }
    check_manifest(root, Path::new("tests/Cargo.toml"), problems)
}

fn check_manifest(root: &Path, file: &Path, problems: &mut Vec<Problem>) -> io::Result<()> {
    let path = root.join(file);
    if !path.is_file() {
        return Ok(());
    }
    let text = fs::read_to_string(path)?;
    for (line, message) in check_text(&text) {
        problems.push(Problem { file: file.to_path_buf(), line, message });
    }
    Ok(())
}

/// Line and message of each forbidden dependency in a manifest.
fn check_text(text: &str) -> Vec<(usize, String)> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(e) => return vec![(1, format!("is not a manifest: {e}"))],
    };
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name")?.as_str())
        .unwrap_or_default();
    let Some((_, allowed)) = LAYERS.iter().chain(TOOLS).find(|(layer, _)| *layer == name) else {
        return vec![(
            1,
            format!("{name} has no place in the layers of tools/xtask/src/tidy/layers.rs"),
        )];
    };
    let used = dependencies(&manifest).into_iter().filter(|(dependency, for_tests)| {
        dependency.starts_with("weft-")
            && !allowed.contains(&dependency.as_str())
            && !(*for_tests && FOR_TESTS.contains(&dependency.as_str()))
    });
    used.map(|(dependency, _)| {
        (line_of(text, &dependency), format!("{name} must not depend on {dependency}"))
    })
    .collect()
}

/// All dependencies, and whether they are for tests only, also those of single targets.
fn dependencies(manifest: &toml::Table) -> Vec<(String, bool)> {
    let targets = manifest.get("target").and_then(|targets| targets.as_table());
    let tables = targets
        .into_iter()
        .flat_map(|targets| targets.values())
        .filter_map(|target| target.as_table());
    let mut found = Vec::new();
    for table in tables.chain([manifest]) {
        for (section, for_tests) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            let names = table
                .get(section)
                .and_then(|section| section.as_table())
                .into_iter()
                .flat_map(|section| section.keys());
            found.extend(names.map(|name| (name.clone(), for_tests)));
        }
    }
    found
}

/// The line on which a dependency is named, or the first.
fn line_of(text: &str, dependency: &str) -> usize {
    text.lines().position(|line| line.trim_start().starts_with(dependency)).map_or(1, |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_list_only_lower_layers() {
        for (i, (layer, below)) in LAYERS.iter().enumerate() {
            for name in *below {
                let at = LAYERS.iter().position(|(other, _)| other == name);
                assert!(
                    at.is_some_and(|at| at < i),
                    "{layer} may use {name}, which is not below it"
                );
            }
        }
    }

    #[test]
    fn the_direction_is_checked_in_every_section() {
        let wrong = |text: &str| check_text(&format!("[package]\nname = \"weft-types\"\n{text}"));
        assert!(wrong("[dependencies]\nweft-table.workspace = true\nlibc = \"1\"\n").is_empty());
        assert!(wrong("[dev-dependencies]\nweft-testkit.workspace = true\n").is_empty());
        assert_eq!(wrong("[dependencies]\nweft-testkit.workspace = true\n").len(), 1);
        assert_eq!(wrong("[build-dependencies]\nweft-server.workspace = true\n").len(), 1);
        assert_eq!(
            wrong("[target.'cfg(loom)'.dependencies]\nweft-keyspace.workspace = true\n"),
            [(4, "weft-types must not depend on weft-keyspace".to_string())]
        );
    }

    #[test]
    fn crates_need_a_place() {
        assert_eq!(check_text("[package]\nname = \"weft-new\"\n").len(), 1);
        assert_eq!(check_text("not toml").len(), 1);
    }
}
