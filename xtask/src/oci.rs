//! An image layout (OCI Image Layout 1.0): an index, and blobs named by their SHA-256.
//!
//! ```text
//! oci-layout    index.json -> manifest of each architecture -> config, layers    blobs/sha256/HASH
//! ```

use crate::Outcome;
use crate::archive::{File, PROGRAM, Root, gzip, tar};
use crate::sums::sha256;
use serde_json::{Value, json};
use std::path::Path;

/// User and group of the program in the image. Not root.
const USER: u64 = 1000;
/// Directories that the user may write to: the data directory, and room for temporary files.
const WRITABLE: [&str; 2] = ["data", "tmp"];

/// The image of one architecture.
pub(crate) struct Image {
    /// Go's name of the architecture.
    pub(crate) architecture: &'static str,
    pub(crate) files: Vec<File>,
}

/// Version, commit and time of an image.
pub(crate) struct About<'a> {
    pub(crate) version: &'a str,
    pub(crate) source: &'a str,
    /// Seconds since 1970.
    pub(crate) time: u64,
}

/// Creates a directory, and writes the layout into it.
///
/// # Errors
///
/// An I/O error, or a path that tar cannot hold.
pub(crate) fn write(dir: &Path, images: Vec<Image>, about: &About<'_>) -> Outcome<()> {
    let blobs = dir.join("blobs/sha256");
    std::fs::create_dir_all(&blobs)?;
    let mut manifests = Vec::new();
    for mut image in images {
        image.files.extend(WRITABLE.map(|name| File::directory(name, PROGRAM, USER)));
        let layer = tar(image.files, Root::Bare, about.time)?;
        let diff = sha256(&layer);
        let layer = blob(&blobs, "application/vnd.oci.image.layer.v1.tar+gzip", &gzip(&layer)?)?;
        let config = config(image.architecture, &diff, about);
        let config = blob(&blobs, "application/vnd.oci.image.config.v1+json", &text(&config))?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [layer],
        });
        let mut manifest = blob(&blobs, "application/vnd.oci.image.manifest.v1+json", &text(&manifest))?;
        manifest["platform"] = json!({ "architecture": image.architecture, "os": "linux" });
        manifests.push(manifest);
    }
    // One index with the tag for all images: tools select the image of their architecture.
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    });
    let mut tagged = blob(&blobs, "application/vnd.oci.image.index.v1+json", &text(&index))?;
    tagged["annotations"] = json!({ "org.opencontainers.image.ref.name": about.version });
    let top = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [tagged],
    });
    std::fs::write(dir.join("index.json"), text(&top))?;
    std::fs::write(dir.join("oci-layout"), text(&json!({ "imageLayoutVersion": "1.0.0" })))?;
    Ok(())
}

fn config(architecture: &str, diff: &str, about: &About<'_>) -> Value {
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/ffwd"],
            "Cmd": ["sync", "--datadir", "/data"],
            "Volumes": { "/data": {}, "/tmp": {} },
            "WorkingDir": "/data",
            "StopSignal": "SIGTERM",
            // Docker's addition to the format, in nanoseconds. Other programs ignore it.
            "Healthcheck": {
                "Test": ["CMD", "/ffwd", "info", "--datadir", "/data", "--json"],
                "Interval": 60_000_000_000_u64,
                "Timeout": 30_000_000_000_u64,
                "StartPeriod": 60_000_000_000_u64,
            },
            "Labels": {
                "org.opencontainers.image.title": "ffwd",
                "org.opencontainers.image.version": about.version,
                "org.opencontainers.image.source": about.source,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
    })
}

/// Writes a blob, and returns its descriptor.
fn blob(blobs: &Path, media_type: &str, bytes: &[u8]) -> Outcome<Value> {
    let hash = sha256(bytes);
    std::fs::write(blobs.join(&hash), bytes)?;
    Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len() }))
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn image(architecture: &'static str) -> Image {
        Image { architecture, files: vec![File::new("ffwd", PROGRAM, architecture)] }
    }

    #[test]
    fn layout_leads_from_the_index_to_each_layer() {
        let dir = tempfile::tempdir().unwrap();
        let about = About { version: "0.1.0", source: "https://example.org", time: 7 };
        write(dir.path(), vec![image("amd64"), image("arm64")], &about).unwrap();
        let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
        let of = |descriptor: &Value| {
            let hash = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
            let path = dir.path().join("blobs/sha256").join(&hash);
            let bytes = fs::read(&path).unwrap();
            assert_eq!(sha256(&bytes), hash, "a blob's name is its hash");
            assert_eq!(descriptor["size"], bytes.len());
            path
        };
        assert_eq!(read(&dir.path().join("oci-layout"))["imageLayoutVersion"], "1.0.0");
        let top = read(&dir.path().join("index.json"));
        assert_eq!(top["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "0.1.0");
        let index = read(&of(&top["manifests"][0]));
        let manifests = index["manifests"].as_array().unwrap();
        assert_eq!(manifests.len(), 2);
        for (manifest, architecture) in manifests.iter().zip(["amd64", "arm64"]) {
            assert_eq!(manifest["platform"]["architecture"], architecture);
            let manifest = read(&of(manifest));
            let config = read(&of(&manifest["config"]));
            assert_eq!(
                (&config["architecture"], &config["config"]["User"]),
                (&json!(architecture), &json!("1000:1000"))
            );
            let layer = fs::read(of(&manifest["layers"][0])).unwrap();
            let mut tar = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&layer[..]), &mut tar).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&tar)), "of the unpacked layer");
            let directory = |name: &str| (name.to_owned(), 0o755, Vec::new());
            let want = [directory("data/"), ("ffwd".to_owned(), 0o755, architecture.into()), directory("tmp/")];
            assert_eq!(crate::archive::tests::entries(&tar), want);
        }
    }
}
