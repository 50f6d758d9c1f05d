# Completion of `tune` for bash. Commands and options come from the program's help, names from configs/ and results/.
# To try it: source scripts/tune.bash

_tune_names() { # folder of *.lua files, looked for here and where the program is installed
    local program home
    program=$(command -v "${COMP_WORDS[0]}") || return
    for home in . "${TERN_HOME:-}" "$(dirname "$program")/.." "$(dirname "$program")/../share/tern"; do
        [ -d "$home/$1" ] || continue
        local file
        for file in "$home/$1"/*.lua; do
            [ -e "$file" ] && basename "$file" .lua
        done
        return
    done
}

_tune() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=run words=
    [[ ${COMP_WORDS[1]:-} != -* && $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]}
    COMPREPLY=()
    case "$before" in
    --gpu | -g) words=$(_tune_names configs/gpus) ;;
    --shapes | -s) words=$(_tune_names configs/shapes) ;;
    --strategy) words="race model random exhaustive" ;;
    --output | -o | --cache) mapfile -t COMPREPLY < <(compgen -d -- "$word") && return ;;
    --db | --replay) mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
    *)
        if [[ $word == -* ]]; then
            words=$("${COMP_WORDS[0]}" help "$command" 2>/dev/null | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+')
        elif [[ $COMP_CWORD -eq 1 || ($COMP_CWORD -eq 2 && $command == help) ]]; then
            words="help $("${COMP_WORDS[0]}" help 2>/dev/null | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')"
        elif [[ $command == compare || $command == release ]]; then
            words=$(for release in results/*/; do [ -d "$release" ] && basename "$release"; done)
            mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" && compgen -f -- "$word")
            return
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word") && return
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _tune tune
