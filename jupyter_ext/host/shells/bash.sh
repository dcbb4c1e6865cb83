# generated preamble: __AHP_NONCE=<hex>   and for login: __AHP_LOGIN=1
if [[ -n ${__AHP_LOGIN-} ]]; then
  [[ -r /etc/profile ]] && . /etc/profile
  for __ahp_f in ~/.bash_profile ~/.bash_login ~/.profile; do [[ -r $__ahp_f ]] && { . "$__ahp_f"; break; }; done
  \unset __ahp_f __AHP_LOGIN
else
  [[ -r ~/.bashrc ]] && . ~/.bashrc
fi
\builtin shopt -q expand_aliases && __ahp_al=1
\builtin shopt -u expand_aliases
if [[ $- == *i* && -n ${__AHP_NONCE-} && -z ${__ahp_n-} ]] && ((BASH_VERSINFO[0]*100+BASH_VERSINFO[1] >= 404)); then
__ahp_n=$__AHP_NONCE; __ahp_run=0 __ahp_h=0 __ahp_x=() __ahp_cwd='' __ahp_t0='' __ahp_l=0 __ahp_g=0 __ahp_hh=0
__ahp_v=$((BASH_VERSINFO[0]*100+BASH_VERSINFO[1]))
__ahp_esc() { # -> REPLY
  builtin local LC_ALL=C s="$1" c
  s=${s//\\/\\\\}; s=${s//;/\\x3b}; s=${s//$'\n'/\\x0a}
  if [[ $s == *[$'\001'-$'\037'$'\177']* ]]; then
    for c in 01 02 03 04 05 06 07 08 09 0b 0c 0d 0e 0f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f 7f; do
      builtin printf -v REPLY "\\x$c"; s=${s//"$REPLY"/\\x$c}
    done
  fi
  s=${s//$'\xc2\x9c'/\\xc2\\x9c}
  REPLY=$s
}
__ahp_last() { # $1 = how many entries -> REPLY (text) and __ahp_num
  builtin local t l o IFS=$' \t\n'
  if [[ ${HISTTIMEFORMAT@a} == *r* && -n ${HISTTIMEFORMAT-} ]]; then
    t=$(\builtin history "$1"); t=${t#"${t%%[! ]*}"}; __ahp_num=${t%%[!0-9]*}
    # length of the time stamp: format it with the shell's own formatter
    builtin printf -v l "%($HISTTIMEFORMAT)T" 0
    t=${t#"$__ahp_num"}; t=${t:2+${#l}}; REPLY=$t; return
  fi
  t=$(HISTTIMEFORMAT= \builtin history "$1")
  t=${t#"${t%%[! ]*}"}; __ahp_num=${t%%[!0-9]*}
  if (($1 == 1)); then t=${t#"$__ahp_num"}; REPLY=${t:2}; return; fi
  builtin local n="$__ahp_num"; o=''
  while IFS= builtin read -r l || [[ -n $l ]]; do
    if [[ $l =~ ^\ *([0-9]+)[*\ ]\ (.*)$ && ${BASH_REMATCH[1]} == "$n" ]]; then l=${BASH_REMATCH[2]}; ((n++)); fi
    o+=$l$'\n'
  done <<<"$t"
  REPLY=${o%$'\n'}
}
__ahp_line() { # -> REPLY text, f flag
  builtin local k
  f=''
  if ((__ahp_v >= 501)); then k=$((HISTCMD-$1)); ((k > 1)) && builtin shopt -q cmdhist && k=1; ((k > 0)) && __ahp_last "$k"
  else __ahp_last 1; k=$((${__ahp_num:-0}+1-$1)); ((k > 1 && !__ahp_l)) && __ahp_last "$k"; fi
  if ((k <= 0)); then
    if ! [[ -o history ]]; then REPLY='' f=u; return; fi
    case :${HISTCONTROL-}: in
      *:erasedups:*) __ahp_last 1; [[ $REPLY == "$__ahp_t0" ]] && f=u ;;
      *:ignoredups:*|*:ignoreboth:*) __ahp_last 1; f=u ;;
      *) REPLY='' f=u ;;
    esac
    if [[ $f == u && -z ${HISTIGNORE-} && :${HISTCONTROL-}: != *:ignorespace:* && :${HISTCONTROL-}: != *:ignoreboth:* ]]; then f=''; fi
  fi
}
__ahp_exec() { # PS0
  { builtin local s="$?" - REPLY f __ahp_num; builtin set +xveu; } 2>/dev/null
  ((__ahp_v < 501)) && __ahp_g=$__ahp_hh
  __ahp_line "$__ahp_g"; __ahp_esc "$REPLY"
  ((__ahp_l)) && builtin printf '\e]633;D;%s;%s\a' "$s" "$__ahp_n" >|/dev/tty
  builtin printf '\e]633;E;%s%s;%s\a\e]633;C;%s\a' "$REPLY" "${f:+;$f}" "$__ahp_n" "$__ahp_n" >|/dev/tty
} 2>/dev/null
__ahp_done() {
  { builtin local s="$?" - REPLY f __ahp_num; builtin set +xveu; } 2>/dev/null
  if ((__ahp_run)); then
    builtin printf '\e]633;D;%s;%s\a' "$s" "$__ahp_n" >|/dev/tty; __ahp_run=0
  elif ((s == 2 && __ahp_v >= 501 && __ahp_h && HISTCMD > __ahp_h)); then
    __ahp_line "$__ahp_h"; builtin local lead="${REPLY#"${REPLY%%[![:space:]]*}"}"; if [[ -n $lead && $lead != '#'* ]]; then __ahp_esc "$REPLY"
    builtin printf '\e]633;E;%s;x;%s\a\e]633;D;%s;%s\a' "$REPLY" "$__ahp_n" "$s" "$__ahp_n" >|/dev/tty; fi
  fi
  ((__ahp_v < 501)) && builtin return "$s"
  builtin return 0
} 2>/dev/null
__ahp_ready() {
  { builtin local s="$?" - REPLY __ahp_num; builtin set +xveu; } 2>/dev/null
  ((__ahp_run)) && builtin printf '\e]633;D;%s;%s\a' "$s" "$__ahp_n" >|/dev/tty; __ahp_run=0
  if [[ $PWD != "$__ahp_cwd" ]]; then __ahp_cwd=$PWD; __ahp_esc "$PWD"; builtin printf '\e]633;P;Cwd=%s;%s\a' "$REPLY" "$__ahp_n" >|/dev/tty; fi
  builtin printf '\e]633;A;%s\a' "$__ahp_n" >|/dev/tty
  if ((__ahp_v >= 501)); then __ahp_h=$HISTCMD; else __ahp_last 1; __ahp_h=$((${__ahp_num:-0}+1)) __ahp_hh=$__ahp_h; fi
  [[ :${HISTCONTROL-}: == *:erasedups:* ]] && { __ahp_last 1; __ahp_t0=$REPLY; }
  __ahp_ps0; __ahp_pc
  builtin return 0
} 2>/dev/null
__ahp_ps0() {
  { builtin local -; builtin set +xveu; } 2>/dev/null
  builtin local w
  if builtin shopt -q promptvars; then
    [[ ${PS0-} == *__ahp_p0* ]] && builtin return
    if ((__ahp_v >= 503)); then w='${__ahp_x[(__ahp_l=__ahp_run,__ahp_run=1,__ahp_g=__ahp_h,__ahp_h=HISTCMD)*0]-}${ ${__ahp_p0-:}; }'
    else w='${__ahp_x[(__ahp_l=__ahp_run,__ahp_run=1,__ahp_g=__ahp_h,__ahp_h=HISTCMD)*0]-}$(${__ahp_p0-:})'; fi
    PS0=$w${PS0-}
  else # no expansion in prompts: fixed marks, no command text
    __ahp_run=1
    [[ ${PS0-} == *';u;'"$__ahp_n"* ]] || PS0='\e]633;E;;u;'$__ahp_n'\a\e]633;C;'$__ahp_n'\a'${PS0-}
  fi
}
if ((__ahp_v >= 503)); then __ahp_f=$(\builtin declare -f __ahp_last); __ahp_f=${__ahp_f//'$(HISTTIMEFORMAT= \builtin history "$1")'/'${ HISTTIMEFORMAT= \builtin history "$1"; }'}; builtin eval "$__ahp_f"; builtin unset __ahp_f; fi
__ahp_p0=__ahp_exec __ahp_pd=__ahp_done __ahp_pr=__ahp_ready
__ahp_pc() { # keep our two hooks first and last
  { builtin local -; builtin set +xveu; } 2>/dev/null
  if [[ ${PROMPT_COMMAND@a} == *r* ]]; then
    [[ ${PS1-} == *__ahp_p1* ]] || PS1='$(${__ahp_p1-:})${__ahp_x[(__ahp_run=0)+(__ahp_h=HISTCMD)*0]-}'${PS1-}; __ahp_p1=__ahp_ps1
  elif ((__ahp_v >= 501)); then
    [[ ${PROMPT_COMMAND[0]-} == '$__ahp_pd' && ${PROMPT_COMMAND[-1]-} == '$__ahp_pr' ]] && builtin return
    builtin local a e; a=()
    for e in "${PROMPT_COMMAND[@]}"; do [[ $e == '$__ahp_pd' || $e == '$__ahp_pr' || -z $e ]] || a+=("$e"); done
    PROMPT_COMMAND=('$__ahp_pd' "${a[@]}" '$__ahp_pr')
  else
    [[ ${PROMPT_COMMAND-} == '$__ahp_pd; '*'; $__ahp_pr' || ${PROMPT_COMMAND-} == '$__ahp_pd; $__ahp_pr' ]] && builtin return
    builtin local p="${PROMPT_COMMAND-}"; p=${p//'$__ahp_pd'/}; p=${p//'$__ahp_pr'/}
    p=${p#"${p%%[![:space:];]*}"}; p=${p%"${p##*[![:space:];]}"}; PROMPT_COMMAND='$__ahp_pd'${p:+"; $p"}'; $__ahp_pr'
  fi
}
__ahp_ps1() { __ahp_done; __ahp_ready; }
__ahp_ps0; __ahp_pc; builtin shopt -q promptvars && __ahp_run=0
fi
[[ -n ${__ahp_al-} ]] && \builtin shopt -s expand_aliases
\builtin unset __ahp_al __AHP_NONCE
