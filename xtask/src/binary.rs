//! Builds the binary of a platform, without paths and times of this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

/// A platform of releases. All are linked statically against musl: one binary runs on every
/// distribution, and in an otherwise empty image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Target {
    /// Returns rustc's name of the platform.
    pub fn triple(self) -> &'static str {
        match self {
            Target::X86_64 => "x86_64-unknown-linux-musl",
            Target::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Returns the name in Debian, Go and OCI images.
    pub fn architecture(self) -> &'static str {
        match self {
            Target::X86_64 => "amd64",
            Target::Aarch64 => "arm64",
        }
    }

    /// Returns the name in Python and the kernel.
    pub fn machine(self) -> &'static str {
        match self {
            Target::X86_64 => "x86_64",
            Target::Aarch64 => "aarch64",
        }
    }

    /// Returns the name in Node.js.
    pub fn node(self) -> &'static str {
        match self {
            Target::X86_64 => "x64",
            Target::Aarch64 => "arm64",
        }
    }
}

/// Builds for `target` in a separate folder. Returns the path of the stripped binary.
///
/// For another processor than this machine's, Zig is the C compiler and the linker (`cargo
/// zigbuild`), because it contains the C library of each platform.
pub fn build(root: &Path, target: Target, epoch: u64) -> Result<PathBuf> {
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let paths = [(root.to_path_buf(), "/ballast"), (cargo_home, "/cargo"), (PathBuf::from(sysroot.trim()), "/rust")];
    // One flag per argument, because paths may contain spaces.
    let rust_flags: Vec<String> =
        paths.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
    // The same for code that the C compiler builds: SQLite, mimalloc and ring.
    let c_flags: Vec<String> =
        paths.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect();
    let is_native = target.machine() == std::env::consts::ARCH;
    let (task, programs) = if is_native {
        ("build", "Debian's musl-tools the C compiler")
    } else {
        ("zigbuild", "`pip install cargo-zigbuild ziglang` the C compiler")
    };
    let status = Command::new("cargo")
        .current_dir(root)
        .args([task, "--release", "--locked", "--bin", "ballast", "--target", target.triple()])
        .args(["--config", "profile.release.strip=true", "--config", "profile.release.debug=false"])
        .env("CARGO_TARGET_DIR", folder(root))
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join("\u{1f}"))
        .env("CFLAGS", c_flags.join(" "))
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        .status()
        .context("failed to run cargo")?;
    ensure!(
        status.success(),
        "cargo could not build for {}: `rustup target add` has the target, and {programs}",
        target.triple()
    );
    Ok(path(root, target))
}

/// Returns the target folder, ignoring CARGO_TARGET_DIR: two builds that are compared must not
/// share one.
fn folder(root: &Path) -> PathBuf {
    root.join("target")
}

/// Returns the path of the binary after `build`.
pub fn path(root: &Path, target: Target) -> PathBuf {
    folder(root).join(target.triple()).join("release/ballast")
}

/// Returns the command that runs programs of this target on this machine, from Cargo's
/// configuration. Empty for this machine's platform.
pub fn runner(target: Target) -> Result<Vec<OsString>> {
    if target.machine() == std::env::consts::ARCH {
        return Ok(Vec::new());
    }
    let name = format!("CARGO_TARGET_{}_RUNNER", target.triple().to_uppercase().replace('-', "_"));
    let words = std::env::var(&name).unwrap_or_default();
    let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
    ensure!(
        !words.is_empty(),
        "the manual comes from the program of the first target, and this machine does not run {}: put a target of \
         this machine first, or let {name} name what runs it, such as qemu-aarch64-static",
        target.triple()
    );
    Ok(words)
}

/// The linkage of a program with the system's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    Static,
    Dynamic,
}

/// Returns the linkage of a program from its headers: ELF, 64 bits, little endian.
///
/// # Errors
///
/// Returns an error if it has another format, or is for another processor.
pub fn linkage(program: &[u8], target: Target) -> Result<Linkage> {
    const INTERPRETER: u32 = 3;
    let bytes = |at: usize, count: usize| program.get(at..at + count).context("its headers are not complete");
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "it is not a program for Linux (ELF, 64 bits, little endian)");
    let short = |at: usize| Ok::<_, anyhow::Error>(u16::from_le_bytes(bytes(at, 2)?.try_into()?));
    let machine = match target {
        Target::X86_64 => 62,
        Target::Aarch64 => 183,
    };
    ensure!(short(18)? == machine, "it is not for {}", target.machine());
    let start = usize::try_from(u64::from_le_bytes(bytes(32, 8)?.try_into()?))?;
    let (size, count) = (usize::from(short(54)?), usize::from(short(56)?));
    for number in 0..count {
        let at = start.checked_add(number * size).context("its headers are not complete")?;
        if u32::from_le_bytes(bytes(at, 4)?.try_into()?) == INTERPRETER {
            return Ok(Linkage::Dynamic);
        }
    }
    Ok(Linkage::Static)
}

/// Runs a command and returns its output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("failed to run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("its output is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_runs_without_another_one() {
        for target in Target::value_variants().iter().copied() {
            let is_of_this_machine = target.machine() == std::env::consts::ARCH;
            assert_eq!(runner(target).is_ok_and(|words| words.is_empty()), is_of_this_machine, "{target:?}");
        }
    }

    #[test]
    fn a_script_and_a_program_of_another_processor_are_refused() {
        let refusal = |bytes: &[u8], target| linkage(bytes, target).unwrap_err().to_string();
        assert!(refusal(b"#!/bin/sh\n", Target::X86_64).contains("not a program for Linux"));
        let mut program = [0; 120];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[18] = 62;
        assert!(refusal(&program, Target::Aarch64).contains("not for aarch64"));
        assert_eq!(linkage(&program, Target::X86_64).unwrap(), Linkage::Static);
        // One program header, of type interpreter, after the header of the file.
        (program[32], program[54], program[56], program[64]) = (64, 56, 1, 3);
        assert_eq!(linkage(&program, Target::X86_64).unwrap(), Linkage::Dynamic);
        assert!(refusal(&program[..60], Target::X86_64).contains("not complete"));
        // This test is itself a program that needs the C library of this system.
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let own = Target::value_variants().iter().find(|target| target.machine() == std::env::consts::ARCH);
        assert_eq!(linkage(&this, *own.unwrap()).unwrap(), Linkage::Dynamic);
    }
}
