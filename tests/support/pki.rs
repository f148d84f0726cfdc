//! Certificate authorities of a test, and the certificates that they sign.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

pub struct Ca {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub fn new(name: &str) -> Ca {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key).unwrap().pem();
        Ca { pem, issuer: Issuer::new(params, key) }
    }

    /// Signs a client's certificate; `shape` may change its parameters. Writes it and its key to
    /// files in `folder`.
    pub fn client(
        &self,
        folder: &Path,
        name: &str,
        groups: &[&str],
        shape: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(folder, params, shape)
    }

    /// Signs a serving certificate for these names.
    pub fn server(&self, folder: &Path, names: &[&str]) -> (PathBuf, PathBuf) {
        self.server_with(folder, names, |_| {})
    }

    pub fn server_with(
        &self,
        folder: &Path,
        names: &[&str],
        shape: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(folder, params, shape)
    }

    fn sign(
        &self,
        folder: &Path,
        mut params: CertificateParams,
        shape: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        shape(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let id = uuid::Uuid::new_v4();
        let paths = (folder.join(format!("{id}.crt")), folder.join(format!("{id}.key")));
        std::fs::write(&paths.0, cert.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }
}
