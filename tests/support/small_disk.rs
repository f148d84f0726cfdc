//! A disk of a few megabytes, for tests of full disks. It requires Linux with user namespaces.

use std::path::Path;
use std::process::Command;

/// Runs one test of this binary again, on a disk of this size, with its path in `variable`. Where
/// no such disk can be created, the test is reported as skipped.
pub fn run_on_small_disk(test: &str, variable: &str, megabytes: u32) {
    run(test, variable, megabytes, "");
}

/// Like the above, as a user other than root, which PostgreSQL requires.
pub fn run_on_small_disk_as_user(test: &str, variable: &str, megabytes: u32) {
    run(test, variable, megabytes, "unshare --user --map-user=1000 --map-group=1000");
}

fn run(test: &str, variable: &str, megabytes: u32, wrapper: &str) {
    let home = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size={megabytes}m tmpfs \"$0\"");
    let tried = unshare(&format!("{mount} && {wrapper} true"), home.path()).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        super::skipped("this machine does not allow mounting a small disk");
        return;
    }
    let output = unshare(&format!("{mount} && exec {wrapper} \"$1\" --exact {test} --nocapture"), home.path())
        .arg(std::env::current_exe().unwrap())
        .env(variable, home.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn unshare(script: &str, place: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(place);
    command
}
