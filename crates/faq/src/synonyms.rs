//! Words that documents use for the same thing, and words that answers use where questions use others. A question in one of them
//! finds a section that uses another, which counts less than the word itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::words::words;
use gladhand_core::Order as _;

/// Each line has words of one meaning, in any form.
const GROUPS: &str = "
    abort cancel interrupt
    absent lack missing
    accept allow grant permit
    access permission privilege right role scope
    account login profile user
    activate enable
    add append insert
    address endpoint host location url
    adjust alter change edit modify update
    admin administrator operator
    alert notify warn
    alias rename
    alive health
    amount count number quantity
    answer reply respond response
    api interface
    app application binary executable program software
    approval approve confirm confirmation consent
    arg argument input param parameter
    attach upload
    attempt retry
    attribute column field key member property
    auth authentication authorization login
    automatic automatically
    available free
    backup copy snapshot
    ban block deny disallow forbid prohibit refuse reject
    begin launch start
    below inside under within
    beyond exceed over
    big bytes large size
    bind listen port
    blank empty
    body content payload
    bound constraint limit max maximum quota restriction threshold
    broken corrupt damage invalid malformed
    browser web
    build compile
    builtin embedded internal
    busy overload
    cache remember
    call invoke
    caller client consumer peer
    capability feature
    capacity full room space
    cause reason
    cert certificate https ssl tls
    character letter symbol
    chat conversation
    check lint test validate verify
    checklist procedure step
    checksum digest hash integrity
    choose pick select
    clash collision conflict
    clean clear reset
    cli command console shell terminal
    close end expire finish
    code status
    combine join merge
    common share
    compress shrink
    computer machine system
    conceal hidden hide invisible mask redact
    concurrent parallel simultaneous
    config configuration option preference setting toml yaml
    configure customize
    connection session socket
    contain include
    container docker
    continue resume
    control manage
    convert migrate
    crash die fail
    crate dependency library package sdk
    create generate make
    credential password secret token
    current present
    cut shorten split truncate
    daemon server service
    dangerous harmful unsafe
    dashboard gui ui
    database db
    date moment time
    deadline timeout
    debian linux ubuntu
    debug log trace verbose verbosity
    decide determine
    decrease lower reduce
    deep depth nest
    default fallback
    definition description schema
    delay lag latency pause slow wait
    delete erase forget remove uninstall wipe
    demand need require
    deprecated obsolete
    detect discover find notice search
    dialect protocol
    dir directory folder path
    disable off
    discard drop evict
    disk storage
    display output print show
    docs documentation manual
    download export fetch
    duplicate same twice
    earlier old older previous
    embed embedding
    encode escape
    encrypt encryption seal
    end exit kill quit shutdown stop terminate
    endless forever infinite permanent unlimited
    ensure guarantee promise
    entry record
    env environment variable
    error exception failure fault issue problem
    event message notification
    event stream
    example sample
    except exclude ignore omit skip
    execute run
    fast performance quick speed throughput
    filter narrow
    flag option switch
    folder workspace
    follower replica replicate secondary standby
    format kind type
    frequency rate
    glob pattern wildcard
    grow increase raise
    hang stuck
    head header
    human person user
    id identifier
    identity principal
    idle inactive unused
    immediately once
    input stdin stdio
    inspect review
    install integrate setup
    internet network online
    invalidate revoke
    isolate isolated sandbox separate
    job task
    keep persist retain save store
    label tag
    latest newest recent
    leader primary
    least min minimum
    length long
    library module
    line row
    linux os platform
    load traffic
    local offline
    lose loss
    mac macos
    measure metric monitor
    millisecond ms
    multiple several
    order sequence
    output stdio stdout
    override precedence priority win
    policy rule
    post send
    proof verify
    publish release
    recover replay restore
    refresh reload
    repeat retry
    repo repository
    restart start
    revert rollback undo
    revision version
    safe secure security
    sec second
    sighup sigint sigkill signal sigterm
    sign signature
    spec specification
    state status
    support work
    switch toggle
    thread worker
    update upgrade
";

/// A word of a question, and words that its answer may have instead. That holds in this direction only.
const RELATED: &str = "
    absent: missing empty nothing none
    accept: take valid
    access: read reach see allow enter
    account: user identity
    acknowledge: answer confirm
    activate: start
    active: running open
    add: create put new append register
    admin: root
    afterwards: later
    agree: accept
    ahead: before
    alert: watch monitor metric
    allow: enabled
    allowed: limit
    alone: single
    alternative: instead
    anonymous: token authorization everybody
    answer: result output
    anyone: everybody nobody
    appear: show list see
    approve: ask allow trust
    archive: old move
    argument: flag option value
    arrive: come
    ask: approval question request
    assign: set
    attack: protection secure
    attacker: protection
    author: written
    authorize: token allow
    automatic: alone
    avoid: without instead never
    bad: wrong broken invalid
    balance: spread share
    ban: hide
    batch: group together
    begin: first open
    behave: effect
    behind: lag follower
    believe: trust claim
    belong: owner
    blacklist: deny
    blocked: wait refuse
    book: entry ledger account
    boot: start
    bottleneck: slow
    branch: main merge
    break: fail stop crash end
    broken: fail wrong error
    browse: list see
    bug: problem error fix
    bundle: package part
    bypass: without skip
    cancel: stop end
    cap: limit
    capacity: limit size
    careful: ask
    certificate: authority ca
    change: different new follow
    cheap: little cost
    check: see look compare
    choice: default
    clean: remove
    clone: copy repository
    close: end stop drop idle
    collect: gather read
    collision: same name
    color: terminal
    colour: terminal
    come: return
    command: run
    compare: difference same
    compatible: version older
    complain: warn error
    complete: whole finish
    compute: cpu
    configure: set config key
    confirm: ask
    conflict: same two clash
    connect: open reach url
    console: stdout stderr
    contact: reach ask
    copy: backup second
    correct: wrong fix reverse
    corrupt: rot fail checksum
    cost: expensive take
    crash: kill stop restart
    credential: login key auth bearer
    cursor: page next
    custom: own
    customize: set own config
    danger: harm destroy destructive careful
    dangerous: destructive destroy
    dead: silent idle gone
    debug: level verbosity
    decide: choose first
    declare: name
    default: unless otherwise without
    delay: after later
    delete: away gone archive
    deny: hide refuse
    deploy: run install
    desktop: client
    destroy: delete harm
    detail: member
    detect: see find check recognise
    develop: build
    device: machine disk
    die: kill gone lost
    directory: cwd root
    disable: false stop
    disappear: gone lost remove
    disconnect: close cut end gone
    discover: list
    disk: file bytes
    distinguish: difference
    distribute: spread share
    document: manual
    domain: host address origin
    double: twice
    down: stop fail
    downgrade: older version back
    downtime: running stop
    drop: lose discard
    duplicate: again idempotency
    duration: time long seconds
    edit: changed file
    editor: cursor code zed
    email: mail
    enable: true
    encode: format
    end: over last
    endpoint: path api
    enforce: hold
    enough: least
    enter: type
    environment: variable
    erase: space
    error: code status refuse
    escape: characters
    everybody: every
    everyone: everybody
    everything: whole
    evict: leave
    examine: read look
    exceed: limit above
    except: unless
    exclude: hide without
    execute: start command
    exit: code status leave
    expensive: cost
    expire: valid timeout old
    expose: show serve
    extend: add
    external: outside
    extra: additional
    failover: promote follower leader
    failure: refuse
    false: wrong
    fast: quick seconds
    feature: new
    fetch: read
    field: members
    file: folder
    fill: full
    find: look locate
    finish: done complete
    fix: correct repair patch hotfix
    flaky: fail retry
    flush: write
    folder: below
    follow: after
    forbid: 403 hide
    forever: without limit long never
    forget: clear lost
    forgot: lost
    format: json text
    free: back
    freeze: stop
    frequent: rate
    fresh: new
    full: limit
    gone: lost removed absent
    grant: trust
    group: together
    grow: larger become
    guarantee: always
    guard: protect token
    hang: silent wait timeout
    harm: destroy
    harmful: destructive harm
    health: 503
    history: earlier saved old
    home: folder
    host: address machine server
    human: people
    identify: name
    idle: without use silent
    ignore: without leave
    import: read turn
    improve: better
    incoming: request
    incorrect: wrong
    increase: larger
    independent: own alone
    info: show
    information: show
    inherit: variable pass
    initial: first
    input: stdin read
    insecure: plain
    inspect: show see list
    install: package add
    instance: process server
    integrate: add use
    interface: api
    interrupt: stop signal
    invalid: wrong not
    invisible: zero
    invoke: run use
    isolate: own
    join: together
    keep: remain stay
    key: setting
    kill: end signal
    language: dialect
    large: bytes mb
    largest: longest
    last: newest
    latency: slow time milliseconds
    latest: last current
    leak: reveal secret
    leave: quit
    legacy: old deprecated
    level: depth
    lifetime: valid expire long
    limit: large
    link: connect
    list: show name
    listen: address
    live: running
    load: read use
    location: folder path
    lock: block wait
    log: line written record audit
    login: sign
    logout: forget
    longer: beyond
    look: see
    lose: gone
    lost: gone cannot
    maintain: support
    malicious: hide protection
    manage: admin
    manual: hand
    map: rename
    mark: tag
    match: fit pattern
    maximum: longest
    memory: remember bytes
    mention: name
    merge: together main
    mirror: replica copy
    mistake: wrong error
    model: provider
    modify: write
    monitor: watch prometheus health
    mount: volume
    move: folder
    multiline: line next
    multiple: two
    mute: silent quiet
    nickname: rename name
    notice: see
    obsolete: old
    occur: come
    offline: network without machine
    open: start
    operate: run
    origin: web page
    outage: down fail
    outdated: old
    output: stdout result written
    overload: load full busy
    override: replace wins
    overwrite: over written
    own: self
    owner: author
    parallel: once same concurrent
    parse: read
    partial: part
    password: key
    patch: fix
    path: file
    pause: delay stop
    pending: wait
    percentage: share percent
    period: time days
    permanent: good always
    permission: scope
    persist: disk file
    person: people somebody
    pin: hash
    ping: alive probe
    pipe: stdin
    place: folder
    plugin: tool skill
    popup: ask form
    preserve: kept survive
    prevent: deny never stop not
    previous: last before
    print: stdout shows
    prior: before
    private: own secret
    problem: wrong broken fail
    procedure: steps
    process: program started
    program: command client
    prompt: ask
    proof: prove
    protect: secure safe deny
    protocol: mcp speak
    prove: verify
    purge: remove old
    query: search ask
    question: ask
    queue: wait
    quiet: silent
    quit: leave
    quota: limits
    random: jitter
    rate: per second
    reach: connect
    readonly: read
    ready: health
    recognise: find known
    recommend: good
    reconnect: again connect
    record: written line audit
    recover: crash lost again
    redirect: follow
    reduce: fewer less cut
    refer: stand
    refuse: not
    register: add
    reject: 403
    relate: belong
    relative: begin
    reload: again follow read changes
    remember: last forget
    remote: http url machine
    remove: away hide without gone
    rename: name
    repair: fix correct
    repeat: again retry
    replace: instead change
    report: shows
    request: call
    require: need
    reset: forget anew
    resource: uri
    restart: start again
    restore: backup
    restrict: limit deny narrow
    result: answer
    resume: continue history go
    retention: kept days
    retire: remove deprecated
    retry: repeat after
    return: answer
    reuse: share again
    revert: back older
    review: read approve
    revoke: remove refuse
    right: correct
    risk: safe danger
    rollback: back yanked
    rotate: new older
    route: path
    rule: policy allow deny
    safe: harm
    sample: example
    save: written file saved
    scan: look
    schedule: time calendar
    scope: needed
    screen: terminal
    script: stdin
    search: look
    secret: key password sealed
    section: table
    secure: tls encrypted token
    see: visible list
    select: choice model
    send: post request
    separate: own apart
    setting: key value
    setup: first start
    several: two
    share: common together
    shell: script run
    show: list see
    shutdown: sigterm
    sign: hmac
    silent: nothing
    simultaneous: once same
    single: one
    size: large
    skip: pass
    slow: fast seconds wait
    small: short
    software: package
    space: bytes disk
    special: own
    specify: name set
    speed: faster seconds
    stable: change
    stall: silent slow
    standard: default usual
    start: begin first
    state: status
    stay: keep
    step: checklist
    stop: prevent end
    store: folder file database disk place
    stream: chunk
    strict: enforce
    string: text
    struggle: slow
    stuck: silent wait
    subject: principal
    succeed: ok
    suffix: end
    support: exist works
    suppress: silent no
    survive: kept restart
    suspend: pause
    swap: replace
    sync: follow replica
    syntax: written
    tail: slow
    tamper: change
    task: steps
    temporary: session
    terminate: end
    test: try
    text: message
    throttle: rate limit
    time: seconds minutes
    timeout: wait long silent
    timezone: utc
    together: combine
    total: together
    track: watch
    transfer: move
    transport: http stdio
    trigger: start call
    troubleshoot: doctor check
    trust: believe approve
    truth: claim
    tune: set
    undo: reverse back correct
    unexpected: unknown
    unique: twice same
    unknown: known
    unlock: key
    unreachable: down reach
    unread: read
    unresponsive: silent dead
    unset: default
    unsupported: older
    untrusted: trust
    upload: put store
    usage: use take
    user: principal person caller
    valid: check
    validate: schema
    value: key
    vanish: gone
    variable: name
    vendor: provider
    verify: check
    version: older release
    view: show see
    violate: break
    vulnerability: security
    wait: long slow
    warn: log
    watch: look
    whitelist: allow
    window: long
    withdraw: back yanked
    worker: process
    wrap: break
    write: save create
    wrong: bad correct
";

/// Phrases of questions, and words that answers to them may use: an answer to "how many" may say "limit".
const PHRASES: &str = "
    at most: limit maximum
    at once: concurrent parallel immediately
    at startup: start
    at the same time: concurrent parallel once simultaneous
    back up: backup copy
    behind my back: change
    by hand: manual example
    by itself: automatic found
    command line: flag
    config file: configuration toml yaml
    every day: nightly daily
    fail over: promote leader
    find out: asked detect discover
    get rid of: remove delete
    give access: allow grant
    give up: timeout fail
    go back: older revert roll
    how big: size bytes limit mb
    how do i know: shows
    how far: lag
    how fast: seconds hours within
    how large: size bytes limit mb
    how long: seconds minutes timeout hours days ms
    how many: limit number maximum count
    how much: limit size bytes number
    how often: seconds minutes times rate
    how old: days months
    in effect: hold force
    in parallel: concurrent once
    in the background: background process
    in use: taken open
    keep out: deny refuse
    keep track: log record count
    load balancer: health
    log in: login auth sign
    log out: logout
    look like: example form
    make sure: check
    not enough: insufficient
    not found: missing absent unknown
    on disk: file folder
    on its own: automatic
    on startup: start
    only some: hide
    out of date: old stale
    out of memory: full
    out of space: full
    per hour: rate limit
    per minute: rate limit
    per second: rate limit
    point in time: moment
    pull request: review change
    roll back: revert withdraw
    run out: full limit
    set up: configure install first
    shut down: stop end sigterm
    sign in: login auth
    start over: reset anew clear
    switch off: disable false no off
    switch on: enable true
    take back: revoke withdraw undo
    too large: limit exceeds longer
    too long: timeout limit
    too many: limit over full reached
    too slow: faster timeout
    turn off: disable false no off
    turn on: enable true
    up to date: follow refresh
    wait forever: timeout limit end silent
    what happens: error refused answered ends
    what if: error fail otherwise
    where: folder file path
    which folder: path
    while running: follow
    who can: allow role
    who may: allow role
    without asking: approve allow
    without network: offline local
    without restart: follow running reload
    without stopping: running
";

/// The related words of each word, as the index knows them.
static RELATIONS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut relations: HashMap<String, Vec<String>> = HashMap::new();
    for (word, others) in RELATED.lines().filter_map(|line| line.split_once(':')) {
        for word in words(word) {
            let others = words(others)
                .into_iter()
                .map(|other| other.stem)
                .filter(|other| *other != word.stem && !synonyms(&word.stem).contains(other));
            relations.entry(word.stem.clone()).or_default().extend(others);
        }
    }
    relations
});

/// The phrases between blanks, each with its words as the index knows them.
static IMPLIED: LazyLock<Vec<(String, Vec<String>)>> = LazyLock::new(|| {
    let phrases = PHRASES.lines().filter_map(|line| line.split_once(':'));
    phrases
        .map(|(phrase, others)| {
            (format!(" {} ", phrase.trim()), words(others).into_iter().map(|word| word.stem).collect())
        })
        .collect()
});

/// Words that the answer to a question with this word may have.
pub(crate) fn related(stem: &str) -> &'static [String] {
    RELATIONS.get(stem).map_or(&[], Vec::as_slice)
}

/// Words at two steps from a word: related words of its synonyms, and synonyms of its related words.
static DISTANT: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let known = RELATIONS.keys().chain(OTHERS.keys());
    let mut distant: HashMap<String, Vec<String>> = HashMap::new();
    for word in known {
        let near: Vec<&String> = synonyms(word).iter().chain(related(word)).collect();
        let beyond = synonyms(word).iter().flat_map(|other| related(other));
        let beyond = beyond.chain(related(word).iter().flat_map(|other| synonyms(other)));
        let mut beyond: Vec<String> = beyond.filter(|other| *other != word && !near.contains(other)).cloned().collect();
        beyond.order();
        beyond.dedup();
        distant.insert(word.clone(), beyond);
    }
    distant
});

/// Words at two steps from this word.
pub(crate) fn distant(stem: &str) -> &'static [String] {
    DISTANT.get(stem).map_or(&[], Vec::as_slice)
}

/// For each phrase of a question, words that the answer may have.
pub(crate) fn implied(question: &str) -> Vec<&'static [String]> {
    let question: Vec<String> =
        question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let question = format!(" {} ", question.join(" "));
    IMPLIED.iter().filter(|(phrase, _)| question.contains(phrase)).map(|(_, words)| words.as_slice()).collect()
}

/// The other words of each word's groups, as the index knows them.
static OTHERS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut others: HashMap<String, Vec<String>> = HashMap::new();
    for group in GROUPS.lines() {
        let group: Vec<String> = words(group).into_iter().map(|word| word.stem).collect();
        for word in &group {
            others.entry(word.clone()).or_default().extend(group.iter().filter(|other| *other != word).cloned());
        }
    }
    others
});

/// Words that mean the same as one that the index knows.
pub(crate) fn synonyms(stem: &str) -> &'static [String] {
    OTHERS.get(stem).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_synonyms_of_its_groups() {
        assert_eq!(synonyms("chat"), ["convers"]);
        // A word may be in several groups.
        assert_eq!(synonyms("folder"), ["dir", "directori", "path", "workspac"]);
        assert!(synonyms("gizmo").is_empty());
    }

    #[test]
    fn words_of_questions_imply_words_of_answers() {
        assert!(related("failover").contains(&"promot".to_owned()));
        assert!(!related("promot").contains(&"failover".to_owned()));
        let meant = implied("How many calls may run at the SAME time?");
        assert!(meant.iter().any(|words| words.contains(&"limit".to_owned())));
        assert!(meant.iter().any(|words| words.contains(&"concurrent".to_owned())));
        assert!(implied("show many").is_empty());
    }

    #[test]
    fn a_word_at_two_steps_is_neither_a_synonym_nor_related() {
        // A checksum is a digest, and a pin is related to a hash.
        assert!(related("pin").contains(&"hash".to_owned()));
        assert!(distant("pin").contains(&"checksum".to_owned()));
        for (word, others) in DISTANT.iter() {
            assert!(others.iter().all(|other| !synonyms(word).contains(other) && !related(word).contains(other)));
        }
        assert!(distant("gizmo").is_empty());
    }

    #[test]
    fn no_word_of_a_relation_is_lost() {
        for line in RELATED.lines().chain(PHRASES.lines()).filter(|line| !line.trim().is_empty()) {
            let (_, others) = line.split_once(':').expect("a word and others");
            assert_eq!(words(others).len(), others.split_whitespace().count(), "{line}");
        }
        assert!(RELATED.lines().filter_map(|line| line.split_once(':')).all(|(word, _)| words(word).len() == 1));
    }

    #[test]
    fn no_word_of_a_group_is_lost() {
        for group in GROUPS.lines().filter(|group| !group.trim().is_empty()) {
            assert_eq!(words(group).len(), group.split_whitespace().count(), "{group}");
        }
    }
}
