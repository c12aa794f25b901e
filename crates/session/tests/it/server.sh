# Runs a PostgreSQL server in a folder of its own until standard input closes. Prints `ready` when
# the server accepts connections. Arguments: the folder of the programs, the port, the password.
set -eu
programs=$1 port=$2 password=$3
server=

stop() {
    if [ -n "$server" ]; then
        kill -QUIT "$server" || true
        wait "$server" || true
    fi
    rm -rf "$folder"
}

# After Ctrl-C, standard input closes too. A failed write is an error, and not the end by SIGPIPE.
trap : INT TERM HUP PIPE
folder=$(mktemp -d)
trap stop EXIT
cd "$folder"
printf '%s' "$password" >password
"$programs/initdb" --pgdata=data --username=haft --auth=scram-sha-256 --pwfile=password \
    --encoding=UTF8 --locale=C --no-sync >log 2>&1 || { cat log >&2; exit 1; }
# The data has no use after the tests, so it need not reach the disk, except in benches.
fsync=${HAFT_POSTGRES_FSYNC:-off}
"$programs/postgres" -D data -k "$folder" -h 127.0.0.1 -p "$port" -N 400 -c fsync="$fsync" >log 2>&1 &
server=$!
# The last line of this file is the state of the server.
until grep -q '^ready' data/postmaster.pid 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || { cat log >&2; exit 1; }
    sleep 0.05
done
echo ready
read -r _ || true
