#!/usr/bin/env bash
# Make a scratch environment with one of the old ELMo tools in it, ready to run on Python 3.11.
#
#   setup.sh allennlp|efml|bilm|simple_elmo DIR     # DIR: a folder outside the repository
#
# The tools are installed as published but without their pinned dependencies, which no longer install. What
# they import and ELMo does not use is replaced by stubs.py, which a .pth file of the environment switches on.
set -euo pipefail

tool="${1:?usage: setup.sh allennlp|efml|bilm|simple_elmo DIR}"
dir="${2:?usage: setup.sh allennlp|efml|bilm|simple_elmo DIR}"
here="$(cd "$(dirname "$0")" && pwd)"
python="${PYTHON:-python3.11}"

case "$tool" in
  allennlp) old="allennlp==0.9.0" needs=(torch==2.13.0 numpy==1.26.4 h5py tqdm requests) ;;
  efml)     old="elmoformanylangs==0.0.4.post2" needs=(torch==2.13.0 numpy==1.26.4 h5py) ;;
  bilm)     old="bilm==0.1.post5" needs=(tensorflow-cpu==2.15.1 numpy==1.26.4 h5py) ;;
  simple_elmo) old="simple_elmo==0.9.2" needs=(tensorflow-cpu==2.15.1 numpy==1.26.4 h5py smart_open) ;;
  *) echo "setup.sh: unknown tool '$tool'; expected allennlp, efml, bilm or simple_elmo" >&2; exit 2 ;;
esac

# torch's CPU wheel: from a folder of wheels named by PIP_FIND_LINKS, else from PyTorch's own index.
[ "$tool" = bilm ] || [ "$tool" = simple_elmo ] || [ -n "${PIP_FIND_LINKS:-}" ] || export PIP_EXTRA_INDEX_URL="https://download.pytorch.org/whl/cpu"

"$python" -m venv "$dir"
"$dir/bin/pip" install --quiet "${needs[@]}"
"$dir/bin/pip" install --quiet --no-deps "$old"
site="$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
printf '%s\nimport stubs\n' "$here" > "$site/old_elmo_stubs.pth"
echo "$tool is ready: $dir/bin/python"
