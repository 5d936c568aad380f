#!/bin/sh
# The system of the image: copies the programs that the platform runs, and the libraries that they
# need, into the folder `$1`. What is left out: package manager, Perl, shells for people, manuals.
# Runs in the first stage of the Dockerfile beside it.
set -eu
to=$1

# git and ssh fetch sources; tar, find, du, unshare, setpriv and nsenter serve builds and limits; ip
# and nft the networks of apps; docker and buildx images. The last three are for Node.js.
packages="base-files base-passwd ca-certificates coreutils dash docker-buildx docker-cli findutils
git grep gzip iproute2 libc-bin nftables openssh-client sed tar util-linux
libatomic1 libgcc-s1 libstdc++6"

# Licenses stay.
left='/usr/share/(bash-completion|bug|info|lintian|locale|man|menu|perl5|gitweb)/'
left="$left|/usr/share/doc/.*/(?!copyright$)|/etc/(pam\.d|update-motd\.d|bash_completion\.d|default)/"
# Programs of git that serve, send mail or need Perl, and those that look at users and disks.
left="$left|/usr/lib/git-core/git-(add--interactive|archimport|cvs.*|daemon|difftool.*|filter-branch"
left="$left|http-(backend|fetch|push)|imap-send|instaweb|mergetool.*|p4|send-email|shell|subtree|svn)$"
left="$left|/usr/(bin|lib/git-core)/scalar$|/usr/bin/(git-shell|lslogins|pinky|users|who|su)$"
left="$left|/usr/sbin/(?!chroot|ip$|nft$)"
# Text in any but these encodings is fetched as it is.
left="$left|/gconv/(?!UTF|UNICODE|ISO8859-1\.|gconv-modules)"

kept_files() { dpkg -L "$@" | sort -u | grep -vP "$left"; }

# Names of packages. What is no program has no libraries.
libraries() {
  kept_files "$@" | while read -r file; do
    if [ -f "$file" ] && [ -x "$file" ]; then ldd "$file" 2> /dev/null || true; fi
  done | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u | xargs realpath | xargs dpkg -S | cut -d: -f1
}

# shellcheck disable=SC2086 # Lists of names.
kept=$(printf '%s\n' $packages $(libraries $packages) libc6 | sort -u)

for folder in dev etc/ssl proc root run srv sys tmp var/lib/dpkg; do mkdir -p "$to/$folder"; done
chmod 1777 "$to/tmp"
for link in bin sbin lib lib64; do
  if [ -L "/$link" ]; then cp -a "/$link" "$to/$link"; fi
done
kept_files $kept | while read -r file; do
  if [ -L "$file" ] || [ -f "$file" ]; then printf '%s\0' "$file"; fi
done | tar --create --null --files-from=- --absolute-names \
  | tar --extract --directory="$to" --keep-directory-symlink
# What packages made when they were installed.
cp -a /etc/passwd /etc/group /etc/nsswitch.conf "$to/etc/"
cp -a /etc/ssl/certs "$to/etc/ssl/"
cp -a /etc/ld.so.cache "$to/etc/"
echo 'slipway:x:10001:10001::/var/lib/slipway:/bin/sh' >> "$to/etc/passwd"
echo 'slipway:x:10001:' >> "$to/etc/group"
# For programs that look for known vulnerabilities.
dpkg-query --status $kept > "$to/var/lib/dpkg/status"
