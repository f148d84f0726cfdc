//! The files of a database are accessible by their owner alone, regardless of the umask (WH2).

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BALLAST: &str = env!("CARGO_BIN_EXE_ballast");
/// Runs a program with a umask of 0.
const OPEN_HANDED: &str = "umask 0; exec \"$0\" \"$@\"";

fn command(words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", OPEN_HANDED, BALLAST]).args(words);
    command
}

/// Starts a server, and returns once it is ready. The caller must kill it.
fn serve(folder: &Path, database: &str) -> Child {
    let mut command = command(&["serve", "--secure-port", "0", "--database-url", database, "--cert-dir"]);
    let mut process = command.arg(folder.join("certs")).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("https://"), "{ready}");
    process
}

/// Returns the files of a database in the folder that other users can access.
fn open_to_others(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|file| file.path().is_file());
    // The file of a probe may disappear meanwhile.
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

    // The modes of an earlier version; after a kill, so that all files exist.
    for file in fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file()) {
        fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    let mut process = serve(folder.path(), &database);
    assert_eq!(open_to_others(folder.path()), ["backup.db 644"]);
    process.kill().unwrap();
    process.wait().unwrap();
}
