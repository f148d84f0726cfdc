//! `apiVersion` and `kind` of typed objects. They follow from the type, so they occupy no memory.

use std::marker::PhantomData;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use ballast_resource::Resource;

/// The `apiVersion` of `K`. It serializes as `group/version`, or `v1` in the core group, and
/// deserializes from any text, because the registry has checked it against the URL.
pub struct ApiVersion<K>(PhantomData<K>);

/// The `kind` of `K`. It deserializes from any text.
pub struct Kind<K>(PhantomData<K>);

impl<K: Resource> Serialize for ApiVersion<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match K::GROUP {
            "" => serializer.serialize_str(K::VERSION),
            group => serializer.collect_str(&format_args!("{group}/{}", K::VERSION)),
        }
    }
}

impl<K: Resource> Serialize for Kind<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(K::KIND)
    }
}

// Implemented by hand, because a derive would put the trait bounds on `K`.
macro_rules! carries_nothing {
    ($name:ident) => {
        impl<K> Clone for $name<K> {
            fn clone(&self) -> $name<K> {
                $name(PhantomData)
            }
        }

        impl<K> Default for $name<K> {
            fn default() -> $name<K> {
                $name(PhantomData)
            }
        }

        impl<K> PartialEq for $name<K> {
            fn eq(&self, _: &$name<K>) -> bool {
                true
            }
        }

        impl<K> std::fmt::Debug for $name<K> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl<'de, K> Deserialize<'de> for $name<K> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name<K>, D::Error> {
                IgnoredAny::deserialize(deserializer).map(|_| $name(PhantomData))
            }
        }
    };
}

carries_nothing!(ApiVersion);
carries_nothing!(Kind);

/// Declares the type of a kind, with the members that all kinds have. `metadata;` before the fields
/// gives the metadata its own description.
macro_rules! kind {
    ($(#[$doc:meta])* pub struct $name:ident { $(#[$metadata:meta])+ metadata; $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Version of the API that the object is written in.
            #[serde(default)]
            #[schema(value_type = String)]
            pub api_version: crate::type_meta::ApiVersion<$name>,
            /// Kind of the object.
            #[serde(default)]
            #[schema(value_type = String)]
            pub kind: crate::type_meta::Kind<$name>,
            $(#[$metadata])+
            #[serde(default)]
            pub metadata: crate::meta::ObjectMeta,
            $($fields)*
        }
    };
    ($(#[$doc:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        crate::type_meta::kind! {
            $(#[$doc])*
            pub struct $name {
                /// Standard metadata of the object.
                metadata;
                $($fields)*
            }
        }
    };
}
pub(crate) use kind;
