//! The bench inside a virtual machine of its own, for what the machine around it does not give:
//! instructions counted one by one, and more open files than a process may have here. It is interpreted, so it is slow, and exact
//! whatever else its host does: its clock is the instruction.
//!
//! The guest is a kernel named by `BENCH_KERNEL` and an initial file system made of the programs that are compared and the libraries
//! they load; it runs this same program and prints its figures on the serial line.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::figures::{Figures, Line};
use crate::party::Programs;
use crate::postgres;

const CLOCK: &str = "bench.clock=instructions";
/// Stands in front of each line of figures on the serial line.
const MARK: &str = "FIGURES ";
const FINISHED: &str = "BENCH FINISHED";

/// An interpreted machine with one processor, one nanosecond of whose time passes with each instruction.
const MACHINE: [&str; 10] = [
    "-accel",
    "tcg",
    "-icount",
    "shift=0,sleep=off",
    "-cpu",
    "max",
    "-smp",
    "1",
    "-m",
    "6G",
];
const KERNEL_WORDS: &str = "console=ttyS0 quiet panic=-1 clocksource=tsc tsc=reliable";

/// Whether this very process runs where CPU time counts instructions.
pub fn clock_is_instructions() -> bool {
    fs::read_to_string("/proc/cmdline")
        .is_ok_and(|text| text.split_whitespace().any(|word| word == CLOCK))
}

/// Runs `arguments` of the bench in a guest and takes its figures over.
pub fn run(arguments: &[String], figures: &mut Figures) -> Result<()> {
    let kernel = std::env::var_os("BENCH_KERNEL")
        .context("name a kernel image (vmlinuz) by BENCH_KERNEL")?;
    let folder = tempfile::TempDir::with_prefix("weir-bench-guest-")?;
    let files = folder.path().join("initrd");
    build(&folder.path().join("root"), arguments)?;
    pack(&folder.path().join("root"), &files)?;
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(MACHINE)
        .args([
            "-nographic",
            "-no-reboot",
            "-nodefaults",
            "-serial",
            "stdio",
            "-kernel",
        ])
        .arg(kernel)
        .arg("-initrd")
        .arg(&files)
        .args(["-append", &format!("{KERNEL_WORDS} {CLOCK}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting qemu-system-x86_64")?;
    let serial = qemu.stdout.take().context("no serial line")?;
    let lines = listen(BufReader::new(serial));
    qemu.wait()?;
    figures.take_over(lines?);
    Ok(())
}

/// Reads the guest's serial line to its end: progress goes on to stderr, figures are collected.
fn listen(serial: impl BufRead) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut finished = false;
    for line in serial.split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end().to_owned();
        match line.strip_prefix(MARK) {
            Some(text) => {
                lines.push(serde_json::from_str(text).context("a line of figures from the guest")?)
            }
            None if line == FINISHED => finished = true,
            None => eprintln!("guest: {line}"),
        }
    }
    if !finished {
        bail!("the guest ended early");
    }
    Ok(lines)
}

/// Lays out the guest's files below `root`.
fn build(root: &Path, arguments: &[String]) -> Result<()> {
    for folder in ["proc", "sys", "dev", "tmp", "out", "bin", "etc", "work"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let programs = Programs::find();
    let servers = postgres::programs()?;
    let mut binaries: Vec<PathBuf> = ["postgres", "initdb", "pgbench"]
        .map(|name| servers.join(name))
        .into();
    binaries.push(std::env::current_exe()?);
    let mut environment = format!("PG_BIN={}\n", servers.display());
    for (variable, program) in [
        ("PGBOUNCER", programs.pgbouncer),
        ("HAPROXY", programs.haproxy),
        ("WEIR", programs.weir),
    ] {
        let Some(program) = program else { continue };
        let program = program.canonicalize()?;
        environment += &format!("export {variable}={}\n", program.display());
        binaries.push(program);
    }
    copy_binaries(root, &binaries)?;
    copy_postgresql_files(root, &servers)?;
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .context("busybox (static) is not installed")?;
    fs::copy(busybox, root.join("bin/busybox"))?;
    symlink("busybox", root.join("bin/sh"))?;
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0::/:/bin/sh\npostgres:x:70:70::/tmp:/bin/sh\n",
    )?;
    fs::write(root.join("etc/group"), "root:x:0:\npostgres:x:70:\n")?;
    let script = init_script(&environment, &std::env::current_exe()?, arguments);
    fs::write(root.join("init"), script)?;
    Ok(fs::set_permissions(
        root.join("init"),
        fs::Permissions::from_mode(0o755),
    )?)
}

fn init_script(environment: &str, bench: &Path, arguments: &[String]) -> String {
    format!(
        "#!/bin/sh\n/bin/busybox --install -s /bin\nexport PATH=/bin\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev\n\
         mkdir -p /dev/shm\nmount -t tmpfs shm /dev/shm\nchmod 1777 /tmp /dev/shm\nip link set lo up\n\
         echo 500000 > /proc/sys/fs/nr_open\n{environment}export PG_BIN\ncd /work\n{} {} --out /out 2>&1\n\
         sed 's/^/{MARK}/' /out/performance.jsonl\necho {FINISHED}\nsync\npoweroff -f\n",
        bench.display(),
        arguments.join(" ")
    )
}

/// Copies programs and what their loader says they need.
fn copy_binaries(root: &Path, binaries: &[PathBuf]) -> Result<()> {
    let mut files: BTreeSet<PathBuf> = binaries.iter().cloned().collect();
    for binary in binaries {
        let output = Command::new("ldd")
            .arg(binary)
            .output()
            .context("running ldd")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        files.extend(
            text.split_whitespace()
                .filter(|word| word.starts_with('/'))
                .map(PathBuf::from),
        );
    }
    files.iter().try_for_each(|file| copy_file(root, file))
}

fn copy_postgresql_files(root: &Path, servers: &Path) -> Result<()> {
    for option in ["--sharedir", "--pkglibdir"] {
        let output = Command::new(servers.join("pg_config")).arg(option).output();
        let path = output
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .unwrap_or_default();
        let path = if Path::new(&path).is_dir() {
            PathBuf::from(path)
        } else {
            guess(servers, option)
        };
        copy_folder(root, &path)?;
    }
    copy_folder(root, Path::new("/usr/share/zoneinfo/Etc"))
}

/// Debian's layout, for servers installed without pg_config.
fn guess(servers: &Path, option: &str) -> PathBuf {
    let installation = servers.parent().unwrap_or(servers);
    match option {
        "--pkglibdir" => installation.join("lib"),
        _ => Path::new("/usr/share/postgresql").join(installation.file_name().unwrap_or_default()),
    }
}

fn copy_folder(root: &Path, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            copy_folder(root, &path)?
        } else {
            copy_file(root, &path)?
        }
    }
    Ok(())
}

fn copy_file(root: &Path, file: &Path) -> Result<()> {
    let target = root.join(file.strip_prefix("/").unwrap_or(file));
    fs::create_dir_all(target.parent().unwrap_or(root))?;
    // A link to nowhere is nothing that a program could have opened here either.
    if file.exists() {
        fs::copy(file, &target).with_context(|| format!("copying {}", file.display()))?;
    }
    Ok(())
}

/// The kernel's own archive format (initramfs-buffer-format: "newc" cpio).
fn pack(root: &Path, archive: &Path) -> Result<()> {
    let mut cpio = Command::new("busybox")
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(fs::File::create(archive)?)
        .spawn()
        .context("starting busybox")?;
    let mut names = Vec::new();
    list(root, root, &mut names)?;
    cpio.stdin
        .take()
        .context("cpio takes no input")?
        .write_all(names.join("\n").as_bytes())?;
    if !cpio.wait()?.success() {
        bail!("cpio failed");
    }
    Ok(())
}

/// Names relative to `root`, folders before what they hold.
fn list(root: &Path, folder: &Path, names: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        names.push(path.strip_prefix(root)?.display().to_string());
        if entry.file_type()?.is_dir() {
            list(root, &path, names)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_lines_are_figures() {
        let serial = format!(
            "booting\n{MARK}{{\"line\":\"failure\",\"measure\":\"m\",\"variant\":\"v\",\"party\":\"p\",\"reason\":\"r\"}}\r\n{FINISHED}\r\n"
        );
        assert_eq!(listen(serial.as_bytes()).expect("a whole run").len(), 1);
        assert!(listen(&b"booting\npanic\n"[..]).is_err());
    }
}
