/// Declares an object of which every field may be missing, and stand beside any other.
///
/// It is read in its place, field by field: a reply has many, and what is moved for each of them adds up. A field that is there
/// twice means what it says last, as in JavaScript and Python. Fields behind an `@` are not read.
macro_rules! object {
    (
        $(#[$of_type:meta])*
        $visible:vis struct $name:ident {
            $($(#[$of_field:meta])* $shown:vis $field:ident $(= $key:literal)?: $type:ty,)*
            $(@ $(#[$of_other:meta])* $other_shown:vis $other:ident: $other_type:ty,)*
        }
    ) => {
        $(#[$of_type])*
        #[derive(Debug, Default)]
        $visible struct $name {
            $($(#[$of_field])* $shown $field: $type,)*
            $($(#[$of_other])* $other_shown $other: $other_type,)*
        }

        const _: () = {
            #[allow(non_camel_case_types, reason = "they are called as the fields are")]
            enum Key {
                $($field,)*
                Other,
            }

            impl<'de> serde::Deserialize<'de> for Key {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_identifier(KeyVisitor)
                }
            }

            struct KeyVisitor;

            impl serde::de::Visitor<'_> for KeyVisitor {
                type Value = Key;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a key")
                }

                fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                    $(if key == $crate::wire::fields::key_of!($field $($key)?) {
                        return Ok(Key::$field);
                    })*
                    Ok(Key::Other)
                }
            }

            struct ObjectVisitor;

            impl<'de> serde::de::Visitor<'de> for ObjectVisitor {
                type Value = $name;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                    let mut object = $name::default();
                    while let Some(key) = map.next_key()? {
                        match key {
                            $(Key::$field => object.$field = map.next_value()?,)*
                            Key::Other => {
                                map.next_value::<serde::de::IgnoredAny>()?;
                            }
                        }
                    }
                    Ok(object)
                }
            }

            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_map(ObjectVisitor)
                }
            }
        };
    };
}

/// What a field is called: its own name, where there is no other.
macro_rules! key_of {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

pub(crate) use {key_of, object};
