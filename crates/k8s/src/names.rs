//! The syntax of names, labels and annotation keys, with the error messages of Kubernetes (MD4,
//! MD5, VB20). Each function returns the errors of a text; an empty list means that it is valid.

const NAME_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Validates the name of an object: a DNS-1123 subdomain.
pub fn subdomain_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > NAME_LENGTH_MAX {
        faults.push(format!("must be no more than {NAME_LENGTH_MAX} characters"));
    }
    if !text.split('.').all(is_dns_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// Validates the name of a namespace: a DNS-1123 label.
pub fn dns_label_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_LENGTH_MAX {
        faults.push(too_long(LABEL_LENGTH_MAX));
    }
    if !is_dns_label(text) {
        faults.push(LABEL.to_owned());
    }
    faults
}

/// Validates a label key, an annotation key or a finalizer: `[prefix/]name`.
pub fn qualified_name_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(""), Some(name), None) => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        (Some(prefix), Some(name), None) => {
            faults.extend(subdomain_faults(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
            name
        }
        _ => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {QUALIFIED} {hint}")];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH_MAX {
        faults.push(format!("name part {}", too_long(LABEL_LENGTH_MAX)));
    }
    if !is_word(name) {
        faults.push(format!("name part {QUALIFIED}"));
    }
    faults
}

/// Validates the value of a label, which may be empty.
pub fn label_value_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_LENGTH_MAX {
        faults.push(too_long(LABEL_LENGTH_MAX));
    }
    if !text.is_empty() && !is_word(text) {
        faults.push(LABEL_VALUE.to_owned());
    }
    faults
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    framed(text, inner, |byte| inner(byte) || byte == b'-')
}

fn is_word(text: &str) -> bool {
    framed(text, |byte| byte.is_ascii_alphanumeric(), |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Returns whether the text is not empty, `edge` holds for its first and last byte, and `inner` for
/// all bytes.
fn framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        bytes => edge(bytes[0]) && edge(bytes[bytes.len() - 1]) && bytes.iter().all(|&byte| inner(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md4_names_are_dns_subdomains() {
        for good in ["a", "a-b", "a.b", "1", "crp-1-aks.member-1"] {
            assert!(subdomain_faults(good).is_empty(), "{good}");
        }
        for bad in ["", ".", "..", "A", "a_b", "-a", "a-", "a..b", "a/b", "a%b", "é"] {
            assert_eq!(subdomain_faults(bad), [SUBDOMAIN], "{bad}");
        }
        assert_eq!(subdomain_faults(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn md5_label_keys_are_qualified_names() {
        for good in ["app", "a.b/c", "karmada.io/x_Y.z", "A"] {
            assert!(qualified_name_faults(good).is_empty(), "{good}");
        }
        assert!(qualified_name_faults("a/b/c")[0].starts_with("a valid label key must consist of alphanumeric"));
        assert!(qualified_name_faults("a/b/c")[0].ends_with("(e.g. 'example.com/MyName')"));
        assert_eq!(qualified_name_faults("/x"), ["prefix part must be non-empty"]);
        assert!(qualified_name_faults("A_/x")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        assert_eq!(qualified_name_faults("a/")[0], "name part must be non-empty");
        assert_eq!(qualified_name_faults(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(qualified_name_faults("a b")[0].starts_with("name part must consist of"));
    }

    #[test]
    fn md5_label_values_may_be_empty() {
        assert!(label_value_faults("").is_empty());
        assert!(label_value_faults("a_b.C-1").is_empty());
        assert_eq!(label_value_faults("a b"), [LABEL_VALUE]);
    }
}
