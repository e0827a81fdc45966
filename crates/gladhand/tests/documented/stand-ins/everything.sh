#!/bin/sh
# A server of MCP 2025-11-25, in place of @modelcontextprotocol/server-everything.
field() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
id() { printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p'; }
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$(id)" "$1"; }
text() { answer "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
tool() { printf '{"name":"%s","description":"A tool.","inputSchema":{"type":"object","properties":{%s}}}' "$1" "$2"; }
while read -r line; do
  case "$line" in
    *'"method":"initialize"'*) answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"everything","version":"1"}}' ;;
    *'"method":"tools/list"'*) answer "\"result\":{\"tools\":[$(tool echo '"message":{"type":"string"}'),$(tool get-sum '"a":{"type":"number"},"b":{"type":"number"}'),$(tool search '"query":{"type":"string"}')]}" ;;
    *'"method":"tools/call"'*'"name":"echo"'*) text "Echo: $(field message)" ;;
    *'"method":"tools/call"'*'"name":"get-sum"'*) text "The sum of $(field a) and $(field b) is $(($(field a) + $(field b)))." ;;
    *'"method":"tools/call"'*'"name":"search"'*) text "nothing about $(field query)" ;;
    *'"method":"resources/list"'*) answer '"result":{"resources":[{"uri":"demo://resource/static/document/features.md","name":"features"}]}' ;;
    *'"method":"resources/templates/list"'*) answer '"result":{"resourceTemplates":[]}' ;;
    *'"method":"resources/read"'*'demo://resource/static/document/features.md'*) answer '"result":{"contents":[{"uri":"demo://resource/static/document/features.md","text":"features"}]}' ;;
    *'"method":"prompts/list"'*) answer '"result":{"prompts":[{"name":"simple-prompt"}]}' ;;
    *'"method":"prompts/get"'*'"name":"simple-prompt"'*) answer '"result":{"messages":[{"role":"user","content":{"type":"text","text":"simple"}}]}' ;;
    *'"method":"ping"'*) answer '"result":{}' ;;
    *'"id":'*'}') answer '"error":{"code":-32601,"message":"Method not found"}' ;;
  esac
done
