//! `cargo xtask dist`: release files in `target/dist/`: an archive of the programs with their documentation, a Debian package,
//! and their checksums.
//!
//! The same commit and the same compiler make the same archive: names are sorted, owners are root, and times are those of
//! the commit.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs, which have the names of their Cargo packages.
const PROGRAMS: [&str; 3] = ["weft-server", "weft-benchmark", "weft-tune"];

/// The target whose programs need no library of the system.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The kinds of files to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Programs that need no library of the system.
    pub is_static: bool,
    /// A Debian package, too.
    pub deb: bool,
}

impl Wanted {
    /// Parses the options `--static` and `--deb`.
    ///
    /// # Errors
    /// The unknown option.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        for arg in args {
            match arg.as_str() {
                "--static" => wanted.is_static = true,
                "--deb" => wanted.deb = true,
                _ => return Err(arg),
            }
        }
        Ok(wanted)
    }
}

/// Builds the programs, makes the files and prints their paths.
///
/// # Errors
/// A command that failed or isn't installed, or a file that can't be written.
pub fn make(root: &Path, wanted: Wanted) -> Result<(), String> {
    let target = root.join("target");
    let programs = build(root, &target, wanted.is_static)?;
    let dist = target.join("dist");
    let stage = dist.join("stage");
    stage_files(root, &programs, &stage).map_err(|e| format!("{}: {e}", stage.display()))?;
    install_docs(&stage)?;
    let kind = if wanted.is_static { "linux-static" } else { "linux" };
    let name = format!("weft-{}-{}-{kind}", version(root)?, std::env::consts::ARCH);
    let mut made = vec![archive(root, &dist, &name)?];
    if wanted.deb {
        made.push(debian_package(root, &dist)?);
    }
    for file in made {
        println!("{}", checksum(&file)?.display());
        println!("{}", file.display());
    }
    Ok(())
}

fn build(root: &Path, target: &Path, is_static: bool) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--target-dir"]).arg(target).current_dir(root);
    for package in PROGRAMS {
        cargo.args(["-p", package]);
    }
    if is_static {
        cargo.args(["--target", STATIC]).env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    }
    run(&mut cargo)?;
    Ok(if is_static { target.join(STATIC).join("release") } else { target.join("release") })
}

/// The tree of files as below `/usr`, in `stage`, and the unit of systemd.
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
    let systemd = stage.join("systemd");
    fs::create_dir_all(&systemd)?;
    let unit = fs::read_to_string(root.join("packaging/weft.service"))?;
    fs::write(systemd.join("weft.service"), packaged_unit(&unit))
}

/// The unit for a package: programs in `/usr/bin`, and a user that stays, since files in `/etc` belong to it.
fn packaged_unit(unit: &str) -> String {
    let lines = unit.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
    let mut text = String::new();
    for line in lines {
        match line {
            "DynamicUser=yes" => text.push_str("User=weft\nGroup=weft"),
            _ => text.push_str(&line.replace("/usr/local/bin/", "/usr/bin/")),
        }
        text.push('\n');
    }
    text
}

/// Each program writes its man pages and completions, and loses its tables of line numbers.
fn install_docs(stage: &Path) -> Result<(), String> {
    for program in PROGRAMS {
        let path = stage.join("bin").join(program);
        run(Command::new("strip").arg("--strip-debug").arg(&path))?;
        run(Command::new(&path).arg("--install-docs").arg(stage.join("share")))?;
    }
    Ok(())
}

/// Packs the staged files as `NAME.tar.gz`, below a folder NAME.
fn archive(root: &Path, dist: &Path, name: &str) -> Result<PathBuf, String> {
    let path = dist.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=root:0", "--group=root:0", "--numeric-owner"])
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

/// Packs the staged files by cargo-deb.
fn debian_package(root: &Path, dist: &Path) -> Result<PathBuf, String> {
    let folder = dist.join("debian");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut deb = Command::new("cargo-deb");
    deb.args(["--no-build", "--no-strip", "--locked", "-p", "weft-server", "--output"])
        .arg(&folder)
        .env("SOURCE_DATE_EPOCH", commit_time(root)?)
        .current_dir(root);
    run(&mut deb).map_err(|e| format!("{e} (cargo install cargo-deb --locked installs it)"))?;
    let mut files = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let file = files.find_map(|entry| entry.ok().map(|e| e.path()));
    let file = file.filter(|path| path.extension() == Some(OsStr::new("deb")));
    file.ok_or_else(|| format!("no package in {}", folder.display()))
}

/// Writes `FILE.sha256` in the form that `sha256sum --check` reads.
fn checksum(file: &Path) -> Result<PathBuf, String> {
    let name = file.file_name().unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new("."));
    let line = output(Command::new("sha256sum").arg(name).current_dir(folder))?;
    let path = folder.join(format!("{}.sha256", name.to_string_lossy()));
    fs::write(&path, line + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// Seconds since 1970 of the last commit.
fn commit_time(root: &Path) -> Result<String, String> {
    output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))
}

fn version(root: &Path) -> Result<String, String> {
    let path = root.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let manifest: toml::Table = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    version.map(str::to_string).ok_or_else(|| format!("{}: no version", path.display()))
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

    #[test]
    fn packaged_unit_has_the_packages_paths_and_user() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let unit = fs::read_to_string(root.join("packaging/weft.service")).expect("the unit");
        let packaged = packaged_unit(&unit);
        assert!(packaged.starts_with("[Unit]\n"));
        assert!(packaged.contains("\nExecStart=/usr/bin/weft-server /etc/weft/weft.conf "));
        assert!(packaged.contains("\nUser=weft\nGroup=weft\n"));
        assert!(!packaged.contains("/usr/local") && !packaged.contains("DynamicUser"));
    }

    #[test]
    fn unknown_options_are_refused() {
        let parse = |args: &[&str]| Wanted::parse(args.iter().map(|arg| (*arg).to_string()));
        assert_eq!(parse(&["--deb"]), Ok(Wanted { is_static: false, deb: true }));
        assert_eq!(parse(&["--static"]), Ok(Wanted { is_static: true, deb: false }));
        assert_eq!(parse(&["--rpm"]), Err("--rpm".to_string()));
    }
}
