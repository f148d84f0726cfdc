//! Names that Kubernetes gives to groups and users, and the paths that are open by default.

use ballast_k8s::User;

/// Paths that every client may read by default: probes and version skew checks (HE5). The paths
/// below them are not open.
pub const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The group of every authenticated user (AN9).
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const ANONYMOUS: &str = "system:anonymous";

/// The prefix of the names of Ballast's own parts (`User::component`).
const COMPONENTS: &str = "system:ballast:";

/// Returns whether no credential of a client can prove this name (WH5): a request without a
/// credential has it, or a part of Ballast itself.
pub(super) fn is_reserved_user(name: &str) -> bool {
    name == ANONYMOUS || name.starts_with(COMPONENTS)
}

/// Returns whether no credential of a client can prove this group: requests without a credential
/// have it.
pub(super) fn is_reserved_group(group: &str) -> bool {
    group == UNAUTHENTICATED
}

/// Adds the group of authenticated users. The aggregator's own health checks name a user without a
/// group, and must count as authenticated (AN9).
pub(super) fn with_authenticated_group(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wh5_no_certificate_proves_a_name_of_ballast_itself_or_of_nobody() {
        assert!(is_reserved_user("system:anonymous") && is_reserved_user("system:ballast:scheduler"));
        assert!(!is_reserved_user("jane") && !is_reserved_user("system:admin"));
        assert!(is_reserved_group("system:unauthenticated") && !is_reserved_group("system:masters"));
    }
}
