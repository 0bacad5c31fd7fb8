#!/usr/bin/env bash
# A worker for the tests, whose figures and faults are set by its settings:
#   cpu=NS, allocations=N   what each operation is said to cost
#   behaviour=…             what it does wrong
# It sends real GETs, so that the servers' count is that of a real worker.
read -r request
field() { # the first value of a key, a number or a string
    [[ $request =~ \"$1\":\"?([^\",}]*) ]] && printf %s "${BASH_REMATCH[1]}"
}
now() { printf %s "${EPOCHREALTIME/[.,]/}"; } # microseconds
behaviour=$(field behaviour)
cpu=$(field cpu); cpu=${cpu:-1000}
allocations=$(field allocations); allocations=${allocations:-3}
prefix=$(field key_prefix)
[[ $request =~ redis://([^:\"]*):([0-9]+) ]] || { echo '{"failed":"no server"}'; exit 1; }
exec 3<>"/dev/tcp/${BASH_REMATCH[1]}/${BASH_REMATCH[2]}"
if [[ -n $RCB_PASSWORD ]]; then
    printf 'AUTH %s\r\n' "$RCB_PASSWORD" >&3
    read -r -u 3 _
fi
get() { # so many GETs, each with its reply of two lines
    local number line
    for ((number = 0; number < $1; number++)); do
        printf 'GET %s%d\r\n' "$prefix" "$((number % 10))" >&3
        read -r -u 3 line
        [[ $line == \$-1* ]] && { echo '{"failed":"a key is not there"}'; exit 1; }
        LC_ALL=C read -r -u 3 -N "$((${line//[^0-9]/} + 2))" _ 2>/dev/null
    done
}
version=1.0.0
case $behaviour in
    crash) echo "I am dead, and the password is $RCB_PASSWORD" >&2; kill -SEGV $$ ;;
    garbage) echo "hello $RCB_PASSWORD"; exit 0 ;;
    refuse) echo '{"failed":"version 1 is not spoken"}'; exit 1 ;;
    unsupported) echo '{"unsupported":"it has no GET"}'; exit 1 ;;
    version-2) echo '{"ready":{"version":2,"client":"fake","client_version":"1.0.0"}}'; read -r _; exit 0 ;;
    early) echo '{"measured":{"operations":1,"elapsed_ns":1,"user_ns":1,"system_ns":1}}'; exit 0 ;;
    changing) version=$EPOCHREALTIME ;;
esac
echo "{\"ready\":{\"client\":\"fake\",\"client_version\":\"$version\",\"later\":\"a field of a later version\"}}"
read -r go
[[ $go == go ]] || exit 0
start=$(now)
[[ $behaviour == none ]] || get 20
elapsed=$((($(now) - start) * 1000))
operations=20
case $behaviour in
    hang) sleep 60 ;;
    more) operations=21 ;;
    fewer) operations=19 ;;
    none) operations=0 ;;
    slow-clock) elapsed=$((elapsed + 10000000000)) ;;
    fast-clock) sleep 0.6; elapsed=1 ;;
    other) printf 'SET rcb:fake 1\r\n' >&3; read -r -u 3 _; printf 'DEL rcb:fake\r\n' >&3; read -r -u 3 _ ;;
esac
echo "{\"measured\":{\"operations\":$operations,\"elapsed_ns\":$elapsed,\"user_ns\":$((operations * cpu)),\"system_ns\":0,\"allocations\":$((operations * allocations)),\"allocated_bytes\":$((operations * 100))}}"
[[ $behaviour == babble ]] && echo more
cat >/dev/null # until the parent closes its end
[[ $behaviour == bad-end ]] && exit 7
exit 0
