//! A document that never changes while the process runs: its bytes, and the hash by which clients
//! cache it.

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha512};

/// A document, serialized once at start-up (OA16, DI17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub body: Bytes,
    /// The SHA-512 of the body, in upper-case hexadecimal (DI9, OA3).
    pub hash: String,
}

impl Published {
    pub fn of(document: &Value) -> Published {
        Published::from_bytes(document.to_string().into_bytes())
    }

    pub fn from_bytes(body: Vec<u8>) -> Published {
        let hash = Sha512::digest(&body).iter().map(|byte| format!("{byte:02X}")).collect();
        Published { body: body.into(), hash }
    }

    /// Returns the hash as the value of the header `ETag`, in quotes.
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }
}
