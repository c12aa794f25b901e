use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

/// A signature algorithm (RFC 7518, section 3.1; RFC 8037, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// Returns the algorithm `name`. Returns `None` for `none`, for symmetric and for unknown
    /// algorithms.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // RFC 9864 has the name with the curve.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    fn rsa_parameters(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }
}

/// A public key in a key set (RFC 7517, section 4). Unknown members are ignored.
#[derive(Deserialize)]
pub(super) struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// A public key for signatures.
pub(super) struct PublicKey {
    id: Option<String>,
    /// The only algorithm of the key, if the key set names one.
    algorithm: Option<Algorithm>,
    material: KeyMaterial,
}

enum KeyMaterial {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// A point of P-256 or P-384, uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    /// Returns the key in `jwk`. Returns `None` if it is no key for a supported signature
    /// algorithm.
    pub(super) fn from_jwk(jwk: &Jwk) -> Option<Self> {
        if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let algorithm = match jwk.alg.as_deref() {
            Some(name) => Some(Algorithm::from_name(name)?),
            None => None,
        };
        let bytes = |member: &Option<String>| URL_SAFE_NO_PAD.decode(member.as_deref()?).ok();
        let point = || Some([vec![0x04], bytes(&jwk.x)?, bytes(&jwk.y)?].concat());
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => KeyMaterial::Rsa(RsaPublicKeyComponents { n: bytes(&jwk.n)?, e: bytes(&jwk.e)? }),
            ("EC", Some("P-256")) => KeyMaterial::P256(point()?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point()?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes(&jwk.x)?),
            _ => return None,
        };
        Some(Self { id: jwk.kid.clone(), algorithm, material })
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns `true` if `signature` is the signature of `message` with this key. The type of the
    /// key must be that of `algorithm`.
    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.is_some_and(|only| only != algorithm) {
            return false;
        }
        let verify = |parameters: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(parameters, key).verify(message, signature).is_ok()
        };
        match (&self.material, algorithm) {
            (KeyMaterial::Rsa(key), _) => algorithm
                .rsa_parameters()
                .is_some_and(|parameters| key.verify(parameters, message, signature).is_ok()),
            (KeyMaterial::P256(key), Algorithm::Es256) => verify(&signature::ECDSA_P256_SHA256_FIXED, key),
            (KeyMaterial::P384(key), Algorithm::Es384) => verify(&signature::ECDSA_P384_SHA384_FIXED, key),
            (KeyMaterial::Ed25519(key), Algorithm::EdDsa) => verify(&signature::ED25519, key),
            _ => false,
        }
    }
}
