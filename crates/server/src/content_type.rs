//! Parses the media type of a request body from `Content-Type` (CT5).
//!
//! The header of an object is parsed as Go's `mime.ParseMediaType` does; an invalid one matches no
//! served type. The header of a patch is compared literally, up to the first semicolon.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The media type of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    Yaml,
    Protobuf,
    JsonPatch,
    MergePatch,
    ApplyYaml,
    Other,
}

/// Returns the media type of an object or of options. No header means JSON.
pub fn object(headers: &HeaderMap) -> Media {
    let text = text(headers);
    let (name, parameters) = split(text);
    match name.trim().to_ascii_lowercase().as_str() {
        "" if parameters.is_empty() => Media::Json,
        _ if !are_valid(parameters) => Media::Other,
        "application/json" => Media::Json,
        "application/yaml" => Media::Yaml,
        "application/vnd.kubernetes.protobuf" => Media::Protobuf,
        _ => Media::Other,
    }
}

/// Returns the media type of a patch.
pub fn patch(headers: &HeaderMap) -> Media {
    match split(text(headers)).0 {
        "application/json-patch+json" => Media::JsonPatch,
        "application/merge-patch+json" => Media::MergePatch,
        "application/apply-patch+yaml" => Media::ApplyYaml,
        _ => Media::Other,
    }
}

/// Returns the value of `Content-Type`. Empty if it is absent or not text.
fn text(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"))
}

/// Returns the type, and its parameters with their semicolons.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(';').unwrap_or(text.len()))
}

/// Returns whether the text consists of parameters: `; name=value`, each name once or always with
/// the same value, and at most one semicolon at the end.
fn are_valid(parameters: &str) -> bool {
    let mut known: Vec<(String, String)> = Vec::new();
    let mut rest = parameters.trim_start();
    while !rest.is_empty() {
        let Some((name, value, after)) = parameter(rest) else { return rest.trim() == ";" };
        match known.iter().find(|(other, _)| *other == name) {
            Some((_, first)) if *first != value => return false,
            Some(_) => {}
            None => known.push((name, value)),
        }
        rest = after.trim_start();
    }
    true
}

/// Returns the parameter at the beginning of a text, and the rest.
fn parameter(text: &str) -> Option<(String, String, &str)> {
    let (name, rest) = token(text.strip_prefix(';')?.trim_start())?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted_value(quoted)?,
        None => token(rest).map(|(value, rest)| (value.to_owned(), rest))?,
    };
    Some((name.to_ascii_lowercase(), value, rest))
}

/// Returns the token of RFC 2045 at the beginning of a text, and the rest.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_part = |c: char| c.is_ascii_graphic() && !is_special(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Returns the content of a quoted text, after its first quote, and the rest.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' if let Some((_, escaped)) = letters.next_if(|(_, next)| is_special(*next)) => value.push(escaped),
            other => value.push(other),
        }
    }
    None
}

fn is_special(c: char) -> bool {
    r#"()<>@,;:\"/[]?="#.contains(c)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(value: Option<&'static str>) -> HeaderMap {
        value.map(|value| (CONTENT_TYPE, HeaderValue::from_static(value))).into_iter().collect()
    }

    #[test]
    fn ct5_content_types_are_read_without_their_parameters() {
        for (value, expected) in [
            (None, Media::Json),
            (Some(""), Media::Json),
            (Some("application/json; charset=utf-8"), Media::Json),
            (Some("application/json;"), Media::Json),
            (Some("application/json; a=\"b;\\\"c\" ;d=e"), Media::Json),
            (Some("application/json;a=b;A=b"), Media::Json),
            (Some(" Application/YAML "), Media::Yaml),
            (Some("application/vnd.kubernetes.protobuf"), Media::Protobuf),
            (Some("application/merge-patch+json"), Media::Other),
            (Some("text/plain"), Media::Other),
        ] {
            assert_eq!(object(&headers(value)), expected, "{value:?}");
        }
    }

    #[test]
    fn ct5_parameters_that_do_not_parse_name_no_type() {
        for value in [
            "application/json;;",
            "application/json; =",
            "application/json;a=b;a=c",
            "application/json;a=\"b",
            "application/json;a",
            "application/json;a=",
            "application/json;a=b c",
            ";a=b",
        ] {
            assert_eq!(object(&headers(Some(value))), Media::Other, "{value}");
        }
    }

    #[test]
    fn pa1_the_type_of_a_patch_is_compared_as_it_is() {
        for (value, expected) in [
            ("application/merge-patch+json", Media::MergePatch),
            ("application/json-patch+json;;", Media::JsonPatch),
            ("application/apply-patch+yaml; charset=utf-8", Media::ApplyYaml),
            ("Application/merge-patch+json", Media::Other),
            ("application/strategic-merge-patch+json", Media::Other),
            ("application/json", Media::Other),
        ] {
            assert_eq!(patch(&headers(Some(value))), expected, "{value}");
        }
    }
}
