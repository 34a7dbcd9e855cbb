#!/bin/sh
# Starts the Salt minion, or starts it anew if something of it changed; the master knows it by now.
# shellcheck disable=SC2154  # whoever sends it sets these

systemctl is-enabled --quiet "$service" || {
    systemctl enable "$service" >&2
    say "$service enabled"
}
if [ -n "$fresh" ] || ! systemctl is-active --quiet "$service"; then
    systemctl reset-failed "$service" 2>/dev/null || :
    systemctl restart "$service" >&2 || {
        journalctl --no-pager --quiet --output=cat --lines=10 --unit="$service" >&2 || :
        exit 1
    }
    say "$service"
fi
echo end=start
