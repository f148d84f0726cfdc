//! The files of a database are for their owner alone, whatever the umask (WH2).

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BALLAST: &str = env!("CARGO_BIN_EXE_ballast");
/// Runs a program with a umask that keeps no right back.
const OPEN_HANDED: &str = "umask 0; exec \"$0\" \"$@\"";

fn command(words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", OPEN_HANDED, BALLAST]).args(words);
    command
}

/// Returns once the server is ready. It must be killed.
fn serve(folder: &Path, database: &str) -> Child {
    let mut command = command(&["serve", "--secure-port", "0", "--database-url", database, "--cert-dir"]);
    let mut process = command.arg(folder.join("certs")).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("https://"), "{ready}");
    process
}

/// The files of a database in the folder that somebody else has a right to.
fn open_to_others(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|file| file.path().is_file());
    // The file of a probe goes while they are looked at.
    let modes = files.filter_map(|file| {
        let mode = file.metadata().ok()?.permissions().mode() & 0o777;
        Some((file.file_name().into_string().unwrap(), mode))
    });
    modes.filter(|(_, mode)| *mode != 0o600).map(|(name, mode)| format!("{name} {mode:o}")).collect()
}

#[test]
fn wh2_the_database_its_backups_and_its_copies_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("ballast.db").display());
    let mut process = serve(folder.path(), &database);
    for file in ["ballast.db", "ballast.db-wal", "ballast.db-shm", "ballast.db-lock"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    assert_eq!(open_to_others(folder.path()), [""; 0]);
    let backup = folder.path().join("backup.db").display().to_string();
    assert!(command(&["backup", "--database-url", &database, &backup]).output().unwrap().status.success());
    assert_eq!(open_to_others(folder.path()), [""; 0]);
    process.kill().unwrap();
    process.wait().unwrap();

    // As an earlier version has left it, and killed, so that all files are there.
    for file in fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file()) {
        fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    let mut process = serve(folder.path(), &database);
    assert_eq!(open_to_others(folder.path()), ["backup.db 644"]);
    process.kill().unwrap();
    process.wait().unwrap();
}
