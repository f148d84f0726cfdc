//! A disk of a few megabytes, for tests of what happens when it is full. Only Linux with user
//! namespaces can make one.

use std::path::Path;
use std::process::Command;

/// Runs one test of this binary again, on a disk of this size. `variable` tells it the place of the
/// disk. Where no such disk can be made, it says that the test was skipped.
pub fn run_on_small_disk(test: &str, variable: &str, megabytes: u32) {
    let home = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size={megabytes}m tmpfs \"$0\"");
    if !unshare(&mount, home.path()).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this machine does not allow mounting a small disk");
        return;
    }
    let output = unshare(&format!("{mount} && exec \"$1\" --exact {test} --nocapture"), home.path())
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
