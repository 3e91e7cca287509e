//! `cargo xtask dist`: release files in `target/dist/`, or in `dist/` of `CARGO_TARGET_DIR`: an archive of the programs with
//! their documentation, a Debian package, and `SHA256SUMS`.
//!
//! The same programs make the same archive: names are sorted, owners are root, modes don't depend on the umask, and times
//! are those of the commit.

use crate::cargo::cargo;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs, which have the names of their Cargo packages.
const PROGRAMS: [&str; 3] = ["weft-server", "weft-benchmark", "weft-tune"];

/// The target whose programs need no library of the system.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The unit of systemd, below a prefix such as `/usr/local`.
const UNIT: &str = "lib/systemd/system/weft.service";

/// The kinds of files to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Programs that need no library of the system.
    pub is_static: bool,
    /// A Debian package, too.
    pub deb: bool,
    /// Pack the programs of this folder instead of building them.
    pub from: Option<PathBuf>,
}

impl Wanted {
    /// Parses the options.
    ///
    /// # Errors
    /// The unknown option, or `--from` without a folder.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--static" => wanted.is_static = true,
                "--deb" => wanted.deb = true,
                "--from" => wanted.from = Some(args.next().ok_or(arg)?.into()),
                _ => return Err(arg),
            }
        }
        Ok(wanted)
    }

    /// The folder of the programs, in Cargo's target folder.
    fn release(&self, target: &Path) -> PathBuf {
        if self.is_static { target.join(STATIC).join("release") } else { target.join("release") }
    }

    /// The name of the archive without its extension, and of the folder in it.
    fn archive(&self, version: &str) -> String {
        let kind = if self.is_static { "linux-static" } else { "linux" };
        format!("weft-{version}-{}-{kind}", std::env::consts::ARCH)
    }
}

/// Facts of the workspace, from Cargo.
#[derive(Debug, PartialEq, Eq)]
struct Workspace {
    version: String,
    /// `CARGO_TARGET_DIR`, or `target/` in the repository.
    target: PathBuf,
}

impl Workspace {
    fn read(root: &Path) -> Result<Workspace, String> {
        let mut metadata = cargo();
        metadata.args(["metadata", "--format-version=1", "--no-deps", "--locked"]);
        Workspace::parse(&output(metadata.current_dir(root))?)
            .ok_or_else(|| "cargo metadata: no version of weft-server".to_string())
    }

    /// Parses the output of `cargo metadata`.
    fn parse(metadata: &str) -> Option<Workspace> {
        let metadata: serde_json::Value = serde_json::from_str(metadata).ok()?;
        let mut packages = metadata["packages"].as_array()?.iter();
        let server = packages.find(|package| package["name"] == "weft-server")?;
        Some(Workspace {
            version: server["version"].as_str()?.to_string(),
            target: metadata["target_directory"].as_str()?.into(),
        })
    }
}

/// Builds the programs, makes the files and prints their paths.
///
/// # Errors
/// A command that failed or isn't installed, or a file that can't be written.
pub fn make(root: &Path, wanted: &Wanted) -> Result<(), String> {
    let workspace = Workspace::read(root)?;
    let programs = match &wanted.from {
        Some(folder) => folder.clone(),
        None => {
            build(root, wanted)?;
            wanted.release(&workspace.target)
        }
    };
    let dist = workspace.target.join("dist");
    let stage = dist.join("stage");
    stage_files(root, &programs, &stage).map_err(|e| format!("{}: {e}", stage.display()))?;
    install_docs(&stage)?;
    let name = wanted.archive(&workspace.version);
    let mut made = vec![archive(root, &dist, &name)?];
    if wanted.deb {
        made.push(debian_package(root, &dist)?);
    }
    made.push(checksums(&dist, &workspace.version)?);
    for file in made {
        println!("{}", file.display());
    }
    Ok(())
}

/// Builds one program after the other. Cargo would unite the features of programs that it builds at once, and then build the
/// server again that `cargo build --release -p weft-server` has made.
fn build(root: &Path, wanted: &Wanted) -> Result<(), String> {
    for package in PROGRAMS {
        let mut cargo = cargo();
        cargo.args(["build", "--release", "--locked", "-p", package]).current_dir(root);
        if wanted.is_static {
            cargo.args(["--target", STATIC]).env("CC_x86_64_unknown_linux_musl", "musl-gcc");
        }
        run(&mut cargo)?;
    }
    Ok(())
}

/// The tree of files below a prefix such as `/usr/local`, in `stage`.
fn stage_files(root: &Path, programs: &Path, stage: &Path) -> io::Result<()> {
    if stage.exists() {
        fs::remove_dir_all(stage)?;
    }
    let bin = stage.join("bin");
    fs::create_dir_all(&bin)?;
    for program in PROGRAMS {
        fs::copy(programs.join(program), bin.join(program))?;
    }
    std::os::unix::fs::symlink("weft-server", bin.join("weft-check"))?;
    let doc = stage.join("share/doc/weft");
    fs::create_dir_all(&doc)?;
    for file in ["README.md", "CHANGELOG.md", "weft.conf", "LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root.join(file), doc.join(file))?;
    }
    fs::copy(root.join("docs/install.md"), doc.join("install.md"))?;
    let unit = stage.join(UNIT);
    fs::create_dir_all(unit.parent().unwrap_or(stage))?;
    fs::copy(root.join("packaging/weft.service"), unit).map(drop)
}

/// Each program writes its man pages and completions, and loses its tables of line numbers. The names of functions stay:
/// crash reports have them.
fn install_docs(stage: &Path) -> Result<(), String> {
    for program in PROGRAMS {
        let path = stage.join("bin").join(program);
        run(Command::new("strip").arg("--strip-debug").arg(&path))?;
        let mut install = Command::new(&path);
        let option = if program == "weft-tune" { "install-docs" } else { "--install-docs" };
        install.arg(option).arg(stage.join("share")).stdout(Stdio::null());
        run(&mut install)?;
    }
    let page = stage.join("share/man/man1/weft-check.1");
    fs::write(&page, ".so man1/weft-server.1\n").map_err(|e| format!("{}: {e}", page.display()))
}

/// Packs the staged files as `NAME.tar.gz`, below a folder NAME.
fn archive(root: &Path, dist: &Path, name: &str) -> Result<PathBuf, String> {
    let path = dist.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--mode=u=rwX,go=rX"])
        .args(["--owner=root:0", "--group=root:0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", commit_time(root)?))
        .arg("--use-compress-program=gzip -9 -n")
        .arg(format!("--transform=flags=r;s|^stage|{name}|"))
        .arg("--file")
        .arg(&path)
        .arg("--directory")
        .arg(dist)
        .arg("stage");
    run(&mut tar)?;
    Ok(path)
}

/// Packs the staged files by cargo-deb. Debian wants compressed man pages.
fn debian_package(root: &Path, dist: &Path) -> Result<PathBuf, String> {
    for section in ["man1", "man5"] {
        let pages = dist.join("stage/share/man").join(section);
        run(Command::new("gzip").args(["-9", "-n"]).args(files(&pages)?).current_dir(&pages))?;
    }
    let folder = dist.join("debian");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut deb = Command::new("cargo-deb");
    deb.args(["--no-build", "--no-strip", "--locked", "--quiet", "-p", "weft-server", "--output"])
        .arg(&folder)
        .env("SOURCE_DATE_EPOCH", commit_time(root)?)
        .stdout(Stdio::null())
        .current_dir(root);
    run(&mut deb).map_err(|e| format!("{e} (cargo install cargo-deb --locked installs it)"))?;
    let made = files(&folder)?.into_iter().find(|name| name.ends_with(".deb"));
    let made = made.ok_or_else(|| format!("no package in {}", folder.display()))?;
    let path = dist.join(&made);
    fs::rename(folder.join(&made), &path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// Writes `SHA256SUMS`, which `sha256sum --check` reads: all files of this version, whichever run made them.
fn checksums(dist: &Path, version: &str) -> Result<PathBuf, String> {
    let names = files(dist)?;
    let names = names.iter().filter(|name| is_release_file(name, version));
    let lines = output(Command::new("sha256sum").args(names).current_dir(dist))?;
    let path = dist.join("SHA256SUMS");
    fs::write(&path, lines + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// Whether a file in the folder of release files belongs to this version: an archive, or a package, whose version has a
/// revision.
fn is_release_file(name: &str, version: &str) -> bool {
    name.starts_with(&format!("weft-{version}-")) && name.ends_with(".tar.gz")
        || name.starts_with(&format!("weft_{version}-")) && name.ends_with(".deb")
}

/// The sorted names in a folder.
fn files(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Seconds since 1970 of the last commit.
fn commit_time(root: &Path) -> Result<String, String> {
    output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(e) => Err(format!("{program}: {e}")),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn repository(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The package has its programs in `/usr/bin`, and a user that stays: files in `/etc` belong to it, and others can't read
    /// them.
    #[test]
    fn units_of_package_and_archive_agree() {
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
            lines.map(str::to_string).collect()
        };
        let folder = "ConfigurationDirectory=weft\n";
        let expected = repository("packaging/weft.service")
            .replace("/usr/local/bin/", "/usr/bin/")
            .replace("DynamicUser=yes", "User=weft\nGroup=weft")
            .replace(folder, &format!("{folder}ConfigurationDirectoryMode=0750\n"));
        assert_eq!(lines(&repository("packaging/debian/weft.service")), lines(&expected));
    }

    /// Debian's tools read version and date of a package from the first line of its changelog.
    #[test]
    fn debian_changelog_begins_with_this_version() {
        let first = format!("weft ({}-1) ", env!("CARGO_PKG_VERSION"));
        assert!(repository("packaging/debian/changelog").starts_with(&first), "{first}");
    }

    #[test]
    fn workspace_is_parsed() {
        let metadata = r#"{"packages": [{"name": "weft-io", "version": "9.9.9"},
            {"name": "weft-server", "version": "0.1.0"}], "target_directory": "/elsewhere"}"#;
        let workspace = Workspace { version: "0.1.0".to_string(), target: "/elsewhere".into() };
        assert_eq!(Workspace::parse(metadata), Some(workspace));
        assert_eq!(Workspace::parse(r#"{"packages": [], "target_directory": "/"}"#), None);
    }

    #[test]
    fn static_programs_have_a_folder_and_an_archive_of_their_own() {
        let target = Path::new("/t");
        let usual = Wanted::default();
        let fixed = Wanted { is_static: true, ..Wanted::default() };
        assert_eq!(usual.release(target), Path::new("/t/release"));
        assert_eq!(fixed.release(target), Path::new("/t/x86_64-unknown-linux-musl/release"));
        let arch = std::env::consts::ARCH;
        assert_eq!(usual.archive("1.2.3"), format!("weft-1.2.3-{arch}-linux"));
        assert_eq!(fixed.archive("1.2.3"), format!("weft-1.2.3-{arch}-linux-static"));
    }

    #[test]
    fn checksums_are_of_files_of_this_version() {
        for name in ["weft-0.1.0-x86_64-linux.tar.gz", "weft_0.1.0-1_amd64.deb"] {
            assert!(is_release_file(name, "0.1.0"), "{name}");
            assert!(!is_release_file(name, "0.1"), "{name}");
        }
        for name in ["SHA256SUMS", "stage", "debian", "weft-0.1.0-x86_64-linux.tar.gz.part"] {
            assert!(!is_release_file(name, "0.1.0"), "{name}");
        }
    }

    /// Two runs make the same bytes, whatever the umask and the order in which files were created.
    #[test]
    fn archives_of_the_same_files_are_equal() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = tempfile::tempdir().expect("a folder");
        let stage = folder.path().join("stage");
        let write = |names: [&str; 2], mode| {
            let _ = fs::remove_dir_all(&stage);
            fs::create_dir_all(stage.join("bin")).expect("created");
            for name in names {
                let path = stage.join("bin").join(name);
                fs::write(&path, name).expect("written");
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            }
            fs::read(archive(&root, folder.path(), "weft").expect("packed")).expect("read")
        };
        let first = write(["a", "b"], 0o755);
        assert!(!first.is_empty());
        assert!(first == write(["b", "a"], 0o700));
        assert!(first != write(["a", "c"], 0o755));
    }

    #[test]
    fn unknown_options_are_refused() {
        let parse = |args: &[&str]| Wanted::parse(args.iter().map(|arg| (*arg).to_string()));
        assert_eq!(parse(&["--deb"]), Ok(Wanted { deb: true, ..Wanted::default() }));
        let packed = Wanted { is_static: true, from: Some("built".into()), deb: false };
        assert_eq!(parse(&["--static", "--from", "built"]), Ok(packed));
        assert_eq!(parse(&["--from"]), Err("--from".to_string()));
        assert_eq!(parse(&["--rpm"]), Err("--rpm".to_string()));
    }
}
