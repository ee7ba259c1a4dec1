"""What Python's huggingface_hub finds in a cache, and how it fills one.

    python_cache.py resolve CACHE REPO REVISION   a snapshot that is there, no network
    python_cache.py fetch   CACHE REPO REVISION   downloads it (HF_ENDPOINT)

Prints one JSON object: the snapshot's path, every file of it by path, and the
warnings of a scan of the whole cache. Made for huggingface_hub 2.4.
"""

import json
import os
import sys

from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

verb, cache, repo, revision = sys.argv[1:]
path = snapshot_download(repo, revision=revision, cache_dir=cache, local_files_only=verb == "resolve")
files = {}
for folder, _, names in os.walk(path):
    for name in names:
        rel = os.path.relpath(os.path.join(folder, name), path)
        files[rel] = hf_hub_download(repo, rel, revision=revision, cache_dir=cache, local_files_only=True)
warnings = [str(w) for w in scan_cache_dir(cache).warnings]
print(json.dumps({"path": path, "files": files, "warnings": warnings}))
