//! Reads a request body within its bounds of size and time, and estimates the memory that its tree
//! will take.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

use ballast_k8s::Status;

/// The largest request body: 3 MiB, as in kube-apiserver (LI3).
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Objects with members in one JSON body. Each takes `OBJECT_BYTES` or more, whatever it contains.
/// A list of 3 MiB has fewer, if its items have a name and one more field.
const OBJECTS_MAX: usize = 200_000;
/// The memory of an object with up to eleven members, without the values.
const OBJECT_BYTES: usize = 664;
/// The memory of a value, while the list that it is in grows.
const VALUE_BYTES: usize = 96;

/// The time between two pieces of a body. A request holds its memory reservation meanwhile
/// (`entrance`).
pub const PIECE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Returns a 413 if `bytes` exceeds the limit.
pub fn check_size(bytes: u64) -> Result<(), Status> {
    if bytes > BODY_BYTES_MAX as u64 { Err(Status::too_large(BODY_BYTES_MAX)) } else { Ok(()) }
}

/// Returns the estimated memory of the tree of a JSON text, in bytes. A 413 if there are too many
/// objects. For text in another encoding the estimate is too low or too high, and it is never
/// rejected.
pub fn tree_bytes(text: &[u8]) -> Result<usize, Status> {
    let (mut objects, mut values) = (0, 1);
    let (mut in_string, mut is_escaped, mut is_opened) = (false, false, false);
    for &byte in text {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        objects += usize::from(is_opened && byte != b'}');
        is_opened = byte == b'{';
        in_string = byte == b'"';
        values += usize::from(byte == b',');
    }
    let is_json = matches!(text.trim_ascii_start().first(), Some(b'{' | b'['));
    if is_json && objects > OBJECTS_MAX {
        let message =
            format!("Request entity too large: it has {objects} objects with members, limit is {OBJECTS_MAX}");
        return Err(Status::failure(413, "RequestEntityTooLarge", message));
    }
    Ok(text.len() + objects * OBJECT_BYTES + values * VALUE_BYTES)
}

/// Reads a body to its end. A larger one is a 413, and `body_drain` discards its rest.
pub async fn read(mut body: Body) -> Result<Bytes, Status> {
    let announced = http_body::Body::size_hint(&body).lower();
    check_size(announced)?;
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = tokio::time::timeout(PIECE_WAIT_MAX, body.frame()).await.map_err(|_| too_slow())? {
        let frame = frame.map_err(|_| Status::bad_request("the body of the request ends early, or is badly framed"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > BODY_BYTES_MAX {
            return Err(Status::too_large(BODY_BYTES_MAX));
        }
        // Most bodies have one frame, which is not copied.
        match (first.take(), whole.is_empty()) {
            (None, true) => first = Some(data),
            (Some(earlier), _) => {
                // A buffer that grows is copied, and takes twice its size for that moment.
                whole.reserve(usize::try_from(announced).unwrap_or_default());
                whole.extend_from_slice(&earlier);
                whole.extend_from_slice(&data);
            }
            (None, false) => whole.extend_from_slice(&data),
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

fn too_slow() -> Status {
    let seconds = PIECE_WAIT_MAX.as_secs();
    Status::failure(408, "RequestTimeout", format!("no byte of the body has come for {seconds} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_tree_follows_from_its_objects_and_values() {
        let empty = format!(r#"{{"a":[{}]}}"#, vec!["{}"; 300_000].join(","));
        assert!(tree_bytes(empty.as_bytes()).unwrap() < 32 << 20, "items without members take little");
        let filled = format!(r#"{{"a": [{}]}}"#, vec![r#"{ "a": 1}"#; OBJECTS_MAX].join(", "));
        let refused = tree_bytes(filled.as_bytes()).unwrap_err();
        assert_eq!(refused.code, 413);
        assert!(refused.message.ends_with("it has 200001 objects with members, limit is 200000"), "{refused}");
        let text = format!(r#"{{"a": "\"{}"}}"#, "{a,".repeat(OBJECTS_MAX));
        assert!(tree_bytes(text.as_bytes()).unwrap() < 1 << 20, "what is in a string is no object");
    }

    #[tokio::test]
    async fn li3_a_body_may_have_3_mib_and_not_one_byte_more() {
        let fits = Body::from(vec![0; BODY_BYTES_MAX]);
        assert_eq!(read(fits).await.unwrap().len(), BODY_BYTES_MAX);
        let announced = read(Body::from(vec![0; BODY_BYTES_MAX + 1])).await.unwrap_err();
        assert_eq!((announced.code, &*announced.message), (413, "Request entity too large: limit is 3145728"));
        let pieces = futures_util::stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(vec![0; 1 << 20])));
        assert_eq!(read(Body::from_stream(pieces)).await.unwrap_err().code, 413);
    }
}
