//! Objects as files: a list in one file, or a folder with a file for each kind. The file name
//! extension selects JSON or YAML.
//!
//! Files are written atomically.

use std::collections::HashMap;
use std::fs;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::Tree;
use super::kinds::Versions;
use ballast_k8s::GroupResource;
use ballast_node::UsageError;

/// Maximum size of a file. A million bindings take about three gigabytes.
const FILE_BYTES_MAX: u64 = 4 << 30;
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// Reads all objects of a file, of a folder's files in the order of their names, or of standard
/// input (`-`). The items of lists are read as separate objects.
pub fn read(path: &Path, take: &mut dyn FnMut(Tree)) -> anyhow::Result<()> {
    for file in files(path).map_err(UsageError::because)? {
        let shown = file.display();
        let read = || -> std::io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let length = match file.as_os_str() == "-" {
                true => std::io::stdin().take(FILE_BYTES_MAX).read_to_end(&mut bytes),
                false => fs::File::open(&file)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes),
            };
            match length? as u64 {
                FILE_BYTES_MAX => Err(std::io::Error::other(format!("it is not below {FILE_BYTES_MAX} bytes"))),
                _ => Ok(bytes),
            }
        };
        let bytes = read().with_context(|| format!("failed to read {shown}")).map_err(UsageError::because)?;
        documents(&bytes, &mut |document| each_object(document, take))
            .with_context(|| format!("failed to read {shown}"))
            .map_err(UsageError::because)?;
    }
    Ok(())
}

fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = || format!("failed to read the folder {}", path.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(failed)? {
        let file = entry.with_context(failed)?.path();
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ENDINGS.contains(&ending) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    anyhow::ensure!(!files.is_empty(), "the folder {} has no file in JSON or YAML", path.display());
    Ok(files)
}

fn documents(bytes: &[u8], take: &mut dyn FnMut(Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return serde_json::Deserializer::from_slice(bytes).into_iter().try_for_each(|document| take(document?));
    }
    let text = std::str::from_utf8(bytes)?;
    serde_saphyr::from_multiple::<Value>(text)?.into_iter().try_for_each(take)
}

fn each_object(document: Value, take: &mut dyn FnMut(Tree)) -> anyhow::Result<()> {
    let Value::Object(mut object) = document else { anyhow::bail!("a document is no object") };
    let is_list = object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match object.remove("items") {
        Some(Value::Array(items)) if is_list => items.into_iter().try_for_each(|item| each_object(item, take)),
        other => {
            object.extend(other.map(|items| ("items".to_owned(), items)));
            take(object);
            Ok(())
        }
    }
}

/// Writes a list of all objects to a file, or to a file of each kind if the path is a folder or
/// ends with a slash. Returns the files.
pub fn write(
    path: &Path,
    kinds: &[Versions],
    objects: &HashMap<GroupResource, Vec<Tree>>,
) -> anyhow::Result<Vec<PathBuf>> {
    let of = |kind: &Versions| objects.get(&kind.resource()).map_or(&[][..], Vec::as_slice);
    if !path.is_dir() && !path.as_os_str().to_string_lossy().ends_with('/') {
        write_list(path, kinds.iter().flat_map(of))?;
        return Ok(vec![path.to_owned()]);
    }
    fs::create_dir_all(path).with_context(|| format!("failed to make the folder {}", path.display()))?;
    let mut written = Vec::new();
    for kind in kinds.iter().filter(|kind| !of(kind).is_empty()) {
        let file = path.join(format!("{}.json", kind.resource()));
        write_list(&file, of(kind).iter())?;
        written.push(file);
    }
    Ok(written)
}

fn write_list<'a>(path: &Path, objects: impl Iterator<Item = &'a Tree>) -> anyhow::Result<()> {
    let failed = || format!("failed to write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let file = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    let mut out = BufWriter::new(file);
    let put = || -> anyhow::Result<()> {
        if is_yaml {
            for object in objects {
                write!(out, "---\n{}", serde_saphyr::to_string(object)?)?;
            }
            return Ok(());
        }
        // One object per line, so that two exports can be compared line by line.
        write!(out, "{{\"apiVersion\":\"v1\",\"items\":[")?;
        for (number, object) in objects.enumerate() {
            out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut out, object)?;
        }
        Ok(writeln!(out, "\n],\"kind\":\"List\",\"metadata\":{{}}}}")?)
    };
    put().with_context(failed)?;
    let file = out.into_inner().map_err(|error| error.into_error()).with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist(path).with_context(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::transfer::kinds;

    fn read_all(path: &Path) -> Vec<Tree> {
        let mut found = Vec::new();
        read(path, &mut |object| found.push(object)).unwrap();
        found
    }

    #[test]
    fn what_is_written_is_read_again_in_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let (_, kinds) = kinds::all();
        let object = |name: &str| {
            let value = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name, "annotations": {"a/b": "x: \"y\"\n- 012 ~ null\té"}},
                "spec": {"items": [1, 2.5, "1", "no", null], "long": i64::MAX}});
            value.as_object().unwrap().clone()
        };
        let objects = vec![object("one"), object("two")];
        let by_kind = HashMap::from([(kinds[0].resource(), objects.clone())]);
        for name in ["all.json", "all.yaml", "parts/"] {
            let path = folder.path().join(name);
            let written = write(&path, &kinds, &by_kind).unwrap();
            assert_eq!(written.len(), 1);
            assert_eq!(read_all(&path), objects, "{name}");
        }
        assert!(folder.path().join("parts/clusters.cluster.karmada.io.json").is_file());
    }

    #[test]
    fn what_is_no_object_is_said_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.json", "{\"kind\": 1"), ("b.yaml", "- 1\n"), ("c.yaml", "a: [")] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            let error = read(&path, &mut |_| {}).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(name), "{error}");
        }
        let empty = tempfile::tempdir().unwrap();
        assert!(read(empty.path(), &mut |_| {}).unwrap_err().to_string().contains("has no file"));
    }
}
