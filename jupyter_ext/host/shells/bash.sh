# Start-up file of an integrated bash (4.4 and newer; first tier from 5.1).
#
# A generated preamble sets __AHP_NONCE and, for what a login shell reads, __AHP_LOGIN. First come the user's own files, then
# the hooks: PS0 says that a command starts (E: its text, C), the first element of PROMPT_COMMAND that it ended (D), the last
# that the prompt follows (P: the folder, A). Every mark carries the nonce and goes to the terminal, never to stdout.
#
# The rules that shape the code:
# - Nothing that the user can see changes: PS1, traps, options, HISTCONTROL, status and PIPESTATUS in their own hooks.
# - Words that users alias or redefine are called by `builtin`; aliases are off while this is read, and `\builtin` stands in
#   substitutions, which bash before 5.2 parses only when it runs them. `builtin local x="$y"` needs the quotes.
# - Each hook switches tracing off before it touches the nonce, and errexit, nounset for its own duration (`local -`).
# - Hooks return 0 under errexit; before 5.1, where PROMPT_COMMAND is one string, they return the status they found.

if [[ -n ${__AHP_LOGIN-} ]]; then
  [[ -r /etc/profile ]] && . /etc/profile
  for __ahp_file in ~/.bash_profile ~/.bash_login ~/.profile; do
    [[ -r $__ahp_file ]] && { . "$__ahp_file"; break; }
  done
  \unset __ahp_file __AHP_LOGIN
else
  [[ -r ~/.bashrc ]] && . ~/.bashrc
fi

\builtin shopt -q expand_aliases && __ahp_aliases=1
\builtin shopt -u expand_aliases
if [[ $- == *i* && -n ${__AHP_NONCE-} && -z ${__ahp_nonce-} ]] && ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then

__ahp_nonce=$__AHP_NONCE
__ahp_version=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1]))
__ahp_running=0     # a command runs: its D is due
__ahp_overdue=0     # PS0 found a command whose D never came
__ahp_history=0     # HISTCMD at the last prompt or PS0
__ahp_base=0        # HISTCMD that the command which PS0 announces is counted from
__ahp_prompted=0    # before 5.1: the history number after the last prompt
__ahp_newest=''     # with erasedups: the newest entry at the last prompt
__ahp_folder=''     # the folder that was last told
__ahp_none=()       # stays empty: an index into it is computed for its side effects alone
__ahp_on_start=__ahp_start __ahp_on_end=__ahp_end __ahp_on_prompt=__ahp_prompt

__ahp_escape() { # $1: text -> REPLY
  builtin local LC_ALL=C text="$1" code
  text=${text//\\/\\\\}
  text=${text//;/\\x3b}
  text=${text//$'\n'/\\x0a}
  if [[ $text == *[$'\001'-$'\037'$'\177']* ]]; then
    for code in 01 02 03 04 05 06 07 08 09 0b 0c 0d 0e 0f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f 7f; do
      builtin printf -v REPLY "\\x$code"
      text=${text//"$REPLY"/\\x$code}
    done
  fi
  REPLY=${text//$'\xc2\x9c'/\\xc2\\x9c}
}

__ahp_entries() { # $1: how many of the newest history entries -> REPLY: their text, __ahp_number: the first one's number
  builtin local text stamp line all='' number IFS=$' \t\n'
  if [[ ${HISTTIMEFORMAT@a} == *r* && -n ${HISTTIMEFORMAT-} ]]; then
    # The variable cannot be emptied, so the stamp is cut off: its length is that of any other time in this format.
    text=$(\builtin history "$1")
    text=${text#"${text%%[! ]*}"}
    __ahp_number=${text%%[!0-9]*}
    builtin printf -v stamp "%($HISTTIMEFORMAT)T" 0
    text=${text#"$__ahp_number"}
    REPLY=${text:2 + ${#stamp}}
    builtin return
  fi
  text=$(HISTTIMEFORMAT= \builtin history "$1")
  text=${text#"${text%%[! ]*}"}
  __ahp_number=${text%%[!0-9]*}
  if (($1 == 1)); then
    # Exactly the number, one mark and one blank: the line's own leading blanks stay.
    text=${text#"$__ahp_number"}
    REPLY=${text:2}
    builtin return
  fi
  number=$__ahp_number
  while IFS= builtin read -r line || [[ -n $line ]]; do
    if [[ $line =~ ^\ *([0-9]+)[*\ ]\ (.*)$ && ${BASH_REMATCH[1]} == "$number" ]]; then
      line=${BASH_REMATCH[2]}
      ((number++))
    fi
    all+=$line$'\n'
  done <<<"$text"
  REPLY=${all%$'\n'}
}
if ((__ahp_version >= 503)); then # a substitution without a fork
  __ahp_text=$(\builtin declare -f __ahp_entries)
  __ahp_text=${__ahp_text//'$(HISTTIMEFORMAT= \builtin history "$1")'/'${ HISTTIMEFORMAT= \builtin history "$1"; }'}
  builtin eval "$__ahp_text"
  builtin unset __ahp_text
fi

__ahp_line() { # $1: history base -> REPLY: the command's text, flag: 'u' if that is no more than a candidate
  builtin local grown
  flag=''
  if ((__ahp_version >= 501)); then
    grown=$((HISTCMD - $1))
    ((grown > 1)) && builtin shopt -q cmdhist && grown=1
    ((grown > 0)) && __ahp_entries "$grown"
  else # there HISTCMD is of no use in hooks
    __ahp_entries 1
    grown=$((${__ahp_number:-0} + 1 - $1))
    ((grown > 1 && !__ahp_overdue)) && __ahp_entries "$grown"
  fi
  if ((grown > 0)); then
    [[ -n $REPLY ]] || flag=u # HISTSIZE=0 counts and keeps nothing
    builtin return
  fi
  # The history did not grow: it is off or keeps nothing, or the line was a repeat or one to be ignored.
  if ! [[ -o history ]]; then
    REPLY='' flag=u
    builtin return
  fi
  case :${HISTCONTROL-}: in
    *:erasedups:*) __ahp_entries 1; [[ $REPLY == "$__ahp_newest" ]] && flag=u ;;
    *:ignoredups:* | *:ignoreboth:*) __ahp_entries 1; flag=u ;;
    *) REPLY='' flag=u; builtin return ;;
  esac
  # Where nothing but repeats is left out, this is one.
  if [[ -n $REPLY && -z ${HISTIGNORE-} && :${HISTCONTROL-}: != *:ignorespace:* && :${HISTCONTROL-}: != *:ignoreboth:* ]]; then
    flag=''
  fi
}

__ahp_start() { # by PS0, in a subshell before 5.3
  { builtin local status="$?" - REPLY flag __ahp_number; builtin set +xveu; } 2>/dev/null
  ((__ahp_version < 501)) && __ahp_base=$__ahp_prompted
  __ahp_line "$__ahp_base"
  __ahp_escape "$REPLY"
  ((__ahp_overdue)) && builtin printf '\e]633;D;%s;%s\a' "$status" "$__ahp_nonce" >|/dev/tty
  builtin printf '\e]633;E;%s%s;%s\a\e]633;C;%s\a' "$REPLY" "${flag:+;$flag}" "$__ahp_nonce" "$__ahp_nonce" >|/dev/tty
} 2>/dev/null

__ahp_end() { # first in PROMPT_COMMAND
  { builtin local status="$?" - REPLY flag __ahp_number code; builtin set +xveu; } 2>/dev/null
  if ((__ahp_running)); then
    builtin printf '\e]633;D;%s;%s\a' "$status" "$__ahp_nonce" >|/dev/tty
    __ahp_running=0
  elif ((status == 2 && __ahp_version >= 501 && __ahp_history && HISTCMD > __ahp_history)); then
    # A line went into the history and nothing ran: a syntax error. (A comment alone leaves the status before it, maybe 2.)
    __ahp_line "$__ahp_history"
    code=${REPLY#"${REPLY%%[![:space:]]*}"}
    if [[ -n $code && $code != '#'* ]]; then
      __ahp_escape "$REPLY"
      builtin printf '\e]633;E;%s;x;%s\a\e]633;D;%s;%s\a' "$REPLY" "$__ahp_nonce" "$status" "$__ahp_nonce" >|/dev/tty
    fi
  fi
  ((__ahp_version < 501)) && builtin return "$status"
  builtin return 0
} 2>/dev/null

__ahp_prompt() { # last in PROMPT_COMMAND
  { builtin local status="$?" - REPLY __ahp_number; builtin set +xveu; } 2>/dev/null
  ((__ahp_running)) && builtin printf '\e]633;D;%s;%s\a' "$status" "$__ahp_nonce" >|/dev/tty
  __ahp_running=0
  if [[ $PWD != "$__ahp_folder" ]]; then
    __ahp_folder=$PWD
    __ahp_escape "$PWD"
    builtin printf '\e]633;P;Cwd=%s;%s\a' "$REPLY" "$__ahp_nonce" >|/dev/tty
  fi
  builtin printf '\e]633;A;%s\a' "$__ahp_nonce" >|/dev/tty
  if ((__ahp_version >= 501)); then
    __ahp_history=$HISTCMD
  else
    __ahp_entries 1
    __ahp_history=$((${__ahp_number:-0} + 1)) __ahp_prompted=$__ahp_history
  fi
  if [[ :${HISTCONTROL-}: == *:erasedups:* ]]; then
    __ahp_entries 1
    __ahp_newest=$REPLY
  fi
  __ahp_set_ps0
  __ahp_set_prompt_command
  builtin return 0
} 2>/dev/null

__ahp_set_ps0() {
  { builtin local -; builtin set +xveu; } 2>/dev/null
  # The index changes variables of this shell, which a substitution cannot; the hook is named by a variable, so that a PS0
  # in a shell without these functions prints nothing.
  builtin local before='(__ahp_overdue=__ahp_running,__ahp_running=1,__ahp_base=__ahp_history,__ahp_history=HISTCMD)*0'
  if ! builtin shopt -q promptvars; then # nothing is expanded there: marks without a text
    __ahp_running=1
    [[ ${PS0-} == *';u;'"$__ahp_nonce"* ]] || PS0='\e]633;E;;u;'$__ahp_nonce'\a\e]633;C;'$__ahp_nonce'\a'${PS0-}
  elif [[ ${PS0-} != *__ahp_on_start* ]]; then
    if ((__ahp_version >= 503)); then
      PS0='${__ahp_none['$before']-}${ ${__ahp_on_start-:}; }'${PS0-}
    else
      PS0='${__ahp_none['$before']-}$(${__ahp_on_start-:})'${PS0-}
    fi
  fi
}

__ahp_set_prompt_command() { # keeps our hooks first and last
  { builtin local -; builtin set +xveu; } 2>/dev/null
  if [[ ${PROMPT_COMMAND@a} == *r* ]]; then # may not be changed: the one case where PS1 gets a prefix, which prints nothing
    [[ ${PS1-} == *__ahp_on_ps1* ]] ||
      PS1='$(${__ahp_on_ps1-:})${__ahp_none[(__ahp_running=0)+(__ahp_history=HISTCMD)*0]-}'${PS1-}
    __ahp_on_ps1=__ahp_ps1
  elif ((__ahp_version >= 501)); then
    [[ ${PROMPT_COMMAND[0]-} == '$__ahp_on_end' && ${PROMPT_COMMAND[-1]-} == '$__ahp_on_prompt' ]] && builtin return
    builtin local kept each
    kept=()
    for each in "${PROMPT_COMMAND[@]}"; do
      [[ $each == '$__ahp_on_end' || $each == '$__ahp_on_prompt' || -z $each ]] || kept+=("$each")
    done
    PROMPT_COMMAND=('$__ahp_on_end' "${kept[@]}" '$__ahp_on_prompt')
  else
    [[ ${PROMPT_COMMAND-} == '$__ahp_on_end; '*'; $__ahp_on_prompt' ]] && builtin return
    [[ ${PROMPT_COMMAND-} == '$__ahp_on_end; $__ahp_on_prompt' ]] && builtin return
    builtin local kept="${PROMPT_COMMAND-}"
    kept=${kept//'$__ahp_on_end'/}
    kept=${kept//'$__ahp_on_prompt'/}
    kept=${kept#"${kept%%[![:space:];]*}"}
    kept=${kept%"${kept##*[![:space:];]}"}
    PROMPT_COMMAND='$__ahp_on_end'${kept:+"; $kept"}'; $__ahp_on_prompt'
  fi
}

__ahp_ps1() {
  __ahp_end
  __ahp_prompt
}

__ahp_set_ps0
__ahp_set_prompt_command
builtin shopt -q promptvars && __ahp_running=0

fi
[[ -n ${__ahp_aliases-} ]] && \builtin shopt -s expand_aliases
\builtin unset __ahp_aliases __AHP_NONCE
