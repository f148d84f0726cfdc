//! A package for Debian and its relatives.

use anyhow::Result;

use crate::archive::Tree;
use crate::binary::Target;

/// Runs the server as a separate user, with its state in /var/lib/ballast. It is not enabled.
const SERVICE: &str = "\
[Unit]
Description=Ballast, placement APIs for a fleet of Kubernetes clusters
Documentation=man:ballast(1)
After=network-online.target
Wants=network-online.target

[Service]
# Flags as BALLAST_NAME=value: ballast serve --help names the variables.
EnvironmentFile=-/etc/default/ballast
ExecStart=/usr/bin/ballast serve --database-url sqlite:///var/lib/ballast/ballast.db --cert-dir /var/lib/ballast/certs
DynamicUser=yes
StateDirectory=ballast
RuntimeDirectory=ballast
WorkingDirectory=/var/lib/ballast
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
NoNewPrivileges=yes
Restart=on-failure

[Install]
WantedBy=multi-user.target
";

/// Packs the tree of the archive (`release::tree`) according to Debian's policy.
pub fn package(version: &str, target: Target, files: &Tree, epoch: u64) -> Result<Vec<u8>> {
    let mut data = Tree::default();
    let mut bytes_installed = 0;
    let mut add = |data: &mut Tree, path: String, bytes: &[u8], is_program: bool| {
        bytes_installed += bytes.len();
        if is_program { data.program(format!("./{path}"), bytes) } else { data.file(format!("./{path}"), bytes) }
    };
    for (path, bytes) in files.files() {
        let Some(place) = place(path) else { continue };
        add(&mut data, place, bytes, path == "ballast");
    }
    add(&mut data, "usr/lib/systemd/system/ballast.service".to_owned(), SERVICE.as_bytes(), false);
    data.folders();
    let mut control = Tree::default();
    control.file(
        "./control",
        format!(
            "Package: ballast\nVersion: {version}\nArchitecture: {}\nMaintainer: The Ballast authors\n\
             Installed-Size: {}\nSection: admin\nPriority: optional\n\
             Description: placement of workloads over a fleet of Kubernetes clusters\n \
             A server for the placement APIs of Karmada and KubeFleet, with a scheduler that moves\n \
             workloads back after an outage, and the kubectl plugin for both.\n",
            target.architecture(),
            bytes_installed.div_ceil(1024),
        ),
    );
    let mut package = ar::Builder::new(Vec::new());
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", control.tar_gz(epoch)?),
        ("data.tar.gz", data.tar_gz(epoch)?),
    ];
    for (name, bytes) in parts {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
        header.set_mtime(epoch);
        header.set_mode(0o100_644);
        package.append(&header, bytes.as_slice())?;
    }
    Ok(package.into_inner()?)
}

/// Returns the path at which a file of the archive is installed.
fn place(path: &str) -> Option<String> {
    let place = match path.split_once('/') {
        None if path == "ballast" => "usr/bin/ballast".to_owned(),
        None => format!("usr/share/doc/ballast/{}", if path == "LICENSE" { "copyright" } else { path }),
        Some(("man", page)) => format!("usr/share/man/man1/{page}"),
        Some(("completions", "ballast.bash")) => "usr/share/bash-completion/completions/ballast".to_owned(),
        Some(("completions", "_ballast")) => "usr/share/zsh/vendor-completions/_ballast".to_owned(),
        Some(("completions", "ballast.fish")) => "usr/share/fish/vendor_completions.d/ballast.fish".to_owned(),
        Some(("docs" | "examples" | "deploy", _)) => format!("usr/share/doc/ballast/{path}"),
        Some(_) => return None,
    };
    Some(place)
}
