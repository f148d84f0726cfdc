//! OCI layouts of the container image and of the Helm chart. `skopeo`, `podman`, `oras` and `crane`
//! can copy them to a registry.

use std::fs;
use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::archive::{Tree, gzip, sha256};
use crate::binary::Target;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The user of the image, as in the Dockerfile.
const USER: u64 = 65532;

/// A folder with an OCI layout.
pub struct Layout<'a> {
    folder: &'a Path,
    manifests: Vec<Value>,
}

impl<'a> Layout<'a> {
    pub fn new(folder: &'a Path) -> Result<Layout<'a>> {
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        Ok(Layout { folder, manifests: Vec::new() })
    }

    /// Writes a blob, and returns its descriptor.
    fn blob(&self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let digest = sha256(bytes);
        fs::write(self.folder.join("blobs/sha256").join(&digest), bytes)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
    }

    /// Adds the image of a platform.
    pub fn image(&mut self, target: Target, binary: &[u8], license: &[u8], labels: &Labels) -> Result<()> {
        let layer = root(binary, license).tar(labels.epoch)?;
        let diff = format!("sha256:{}", sha256(&layer));
        let layer = self.blob("application/vnd.oci.image.layer.v1.tar+gzip", &gzip(&layer)?)?;
        let config = json!({
            "architecture": target.architecture(),
            "os": "linux",
            "created": labels.created,
            "config": {
                "User": format!("{USER}:{USER}"),
                "WorkingDir": "/var/lib/ballast",
                "Entrypoint": ["/usr/local/bin/ballast"],
                "Cmd": ["serve"],
                "ExposedPorts": {"7443/tcp": {}},
                "Volumes": {"/var/lib/ballast": {}},
                "Env": [
                    "PATH=/usr/local/bin",
                    "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
                    "BALLAST_BIND_ADDRESS=0.0.0.0",
                    "BALLAST_DATABASE_URL=sqlite:///var/lib/ballast/ballast.db",
                    "BALLAST_CERT_DIR=/var/lib/ballast/certs",
                ],
                "Labels": labels.annotations(),
            },
            "rootfs": {"type": "layers", "diff_ids": [diff]},
            "history": [{"created": labels.created, "created_by": "cargo xtask release"}],
        });
        let config = self.blob("application/vnd.oci.image.config.v1+json", &serde_json::to_vec(&config)?)?;
        let platform = json!({"architecture": target.architecture(), "os": "linux"});
        self.manifest(config, layer, labels, Some(platform))
    }

    /// Adds a packed Helm chart, in the format of `helm push`.
    pub fn chart(&mut self, packed: &[u8], chart: &Value, labels: &Labels) -> Result<()> {
        let config = self.blob("application/vnd.cncf.helm.config.v1+json", &serde_json::to_vec(chart)?)?;
        let layer = self.blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", packed)?;
        self.manifest(config, layer, labels, None)
    }

    fn manifest(&mut self, config: Value, layer: Value, labels: &Labels, platform: Option<Value>) -> Result<()> {
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
            "annotations": labels.annotations(),
        });
        let mut descriptor = self.blob(MANIFEST, &serde_json::to_vec(&manifest)?)?;
        if let Some(platform) = platform {
            descriptor["platform"] = platform;
        }
        self.manifests.push(descriptor);
        Ok(())
    }

    /// Writes the index. If there are several manifests, they are the platforms of one image, and a
    /// separate index has the tag.
    pub fn finish(self, tag: &str) -> Result<()> {
        let mut tagged = if let [only] = self.manifests.as_slice() {
            only.clone()
        } else {
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests});
            self.blob(INDEX, &serde_json::to_vec(&index)?)?
        };
        tagged["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [tagged]});
        fs::write(self.folder.join("index.json"), serde_json::to_vec(&index)?)?;
        fs::write(self.folder.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(())
    }
}

/// The metadata of an image.
pub struct Labels {
    pub version: String,
    pub revision: String,
    /// RFC 3339.
    pub created: String,
    pub epoch: u64,
}

impl Labels {
    fn annotations(&self) -> Value {
        json!({
            "org.opencontainers.image.title": "ballast",
            "org.opencontainers.image.description": "Places workloads over a fleet of Kubernetes clusters",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.revision,
            "org.opencontainers.image.created": self.created,
        })
    }
}

/// Returns the files of the image: the binary, a user, and the CA certificates of Mozilla, which
/// `--otlp-endpoint`, PostgreSQL and members may need.
fn root(binary: &[u8], license: &[u8]) -> Tree {
    let mut tree = Tree::default();
    tree.program("usr/local/bin/ballast", binary);
    tree.file("usr/share/doc/ballast/LICENSE", license);
    tree.file("etc/passwd", format!("ballast:x:{USER}:{USER}::/var/lib/ballast:/sbin/nologin\n"));
    tree.file("etc/group", format!("ballast:x:{USER}:\n"));
    tree.file("etc/ssl/certs/ca-certificates.crt", certificates());
    tree.folder("tmp", 0o1777, 0);
    tree.folder("var/lib/ballast", 0o700, USER);
    tree.folder("var/run/ballast", 0o700, USER);
    tree
}

/// Returns the certificates in PEM. They come from a crate, so they do not depend on the build
/// machine.
fn certificates() -> String {
    let mut pem = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        pem += "-----BEGIN CERTIFICATE-----\n";
        let text = STANDARD.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            pem += std::str::from_utf8(line).expect("base64 is ASCII");
            pem.push('\n');
        }
        pem += "-----END CERTIFICATE-----\n";
    }
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(folder: &Path, digest: &Value) -> Vec<u8> {
        let digest = digest.as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = fs::read(folder.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!(sha256(&bytes), digest);
        bytes
    }

    fn labels() -> Labels {
        let text = str::to_owned;
        Labels { version: text("1.2.3"), revision: text("abc"), created: text("2026-11-27T00:00:00Z"), epoch: 1 }
    }

    #[test]
    fn every_blob_of_an_image_is_reached_from_its_index_and_has_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let mut layout = Layout::new(folder.path()).unwrap();
        layout.image(Target::X86_64, b"amd", b"license", &labels()).unwrap();
        layout.image(Target::Aarch64, b"arm", b"license", &labels()).unwrap();
        layout.finish("1.2.3").unwrap();
        let index: Value = serde_json::from_slice(&fs::read(folder.path().join("index.json")).unwrap()).unwrap();
        assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
        let platforms: Value = serde_json::from_slice(&read(folder.path(), &index["manifests"][0]["digest"])).unwrap();
        assert_eq!(platforms["manifests"].as_array().unwrap().len(), 2);
        for (manifest, binary) in platforms["manifests"].as_array().unwrap().iter().zip([b"amd", b"arm"]) {
            let manifest: Value = serde_json::from_slice(&read(folder.path(), &manifest["digest"])).unwrap();
            let config: Value = serde_json::from_slice(&read(folder.path(), &manifest["config"]["digest"])).unwrap();
            assert_eq!(config["config"]["User"], "65532:65532");
            let layer = read(folder.path(), &manifest["layers"][0]["digest"]);
            let mut tar = Vec::new();
            std::io::copy(&mut flate2::read::GzDecoder::new(layer.as_slice()), &mut tar).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&tar)));
            assert!(tar.windows(3).any(|part| part == binary));
        }
        assert_eq!(fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count(), 7);
    }

    #[test]
    fn the_certificates_are_pem() {
        let pem = certificates();
        assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), webpki_root_certs::TLS_SERVER_ROOT_CERTS.len());
        assert!(pem.lines().all(|line| line.len() <= 64));
    }
}
