// Generated from jupyter_ext/protocol by `python labextension/scripts/generate_protocol.py`; do not edit.

/** Stands for every tag that is not listed here; the value is whatever the peer wrote. A literal, so that comparing narrows. */
export type UnknownTag = '(unknown)';

/** A URI, compared as given. */
export type Uri = string;

/** "0" to "15" for the theme's sixteen colours (8 to 15 bright), else "#rrggbb". */
export type Color = string;

/** Held by a client. The id is a label chosen by the client, not a credential. */
export interface TerminalClientClaim {
  readonly kind: 'client';
  readonly clientId: string;
}

/** Held by a session; with turn and tool call while one uses it, without them in the background. */
export interface TerminalSessionClaim {
  readonly kind: 'session';
  readonly session: Uri;
  /** Required from 0.9 on; the host always writes it. */
  readonly chat?: string;
  readonly turnId?: string;
  readonly toolCallId?: string;
}

/** Who holds a terminal, for people. */
export interface HolderInfo {
  readonly title: string;
  readonly role: 'kernel' | 'person' | 'session';
}

/** The command that runs now; `timestamp` is Unix time in ms at its start. */
export interface RunningCommand {
  readonly commandId: string;
  readonly commandLine: string;
  readonly timestamp: number;
}

/** The command that ended last. No exit code means unknown, never a guess. */
export interface LastCommand {
  readonly commandId: string;
  readonly exitCode?: number;
  readonly durationMs?: number;
}

/** What the kernel says about the terminal's input side. */
export interface InputInfo {
  readonly awaiting: boolean;
  readonly echo: boolean;
  readonly lineMode: boolean;
  readonly program?: string;
}

/** An open request for a secret, answered out of band. */
export interface SecretRequest {
  readonly id: string;
  readonly prompt: string;
}

/** What AHP's state does not say about a terminal (our extension x-terminal). */
export interface TerminalDetails {
  /** The shell's name, or the path it was chosen by. */
  readonly shell: string;
  readonly login: boolean;
  /** The shell's process id; 0 once it has gone. */
  readonly pid: number;
  /** "yes", "pending", or the reason why commands are not tracked. */
  readonly tracking: string;
  /** The notebook it was made for, below the server's root. */
  readonly origin?: string;
  readonly holder?: HolderInfo;
  /** True once a person has given the title. */
  readonly named?: boolean;
  readonly cwd?: Uri;
  readonly running?: RunningCommand;
  readonly last?: LastCommand;
  readonly input?: InputInfo;
  readonly secret?: SecretRequest;
  /** Unix time in ms at which it would be culled. */
  readonly cullAt?: number;
  /** True once a run has cleared a line that was typed. */
  readonly discardedTyped?: boolean;
}

/** Who submitted a command. */
export interface SubmittedBy {
  readonly clientId: string;
  readonly role: 'kernel' | 'person' | 'session';
}

/** Where a command came from: who, and which x-terminal/run. */
export interface TerminalSubmission {
  readonly by?: SubmittedBy;
  readonly runId?: string;
}

/** `_meta` of TerminalState and TerminalInfo. */
export interface TerminalMeta {
  readonly 'x-terminal'?: TerminalDetails;
}

/** `_meta` of a command part and of commandExecuted. */
export interface TerminalPartMeta {
  readonly 'x-terminal'?: TerminalSubmission;
}

/** Output that belongs to no command: prompts, echoes, or all of it in a shell without tracking. */
export interface TerminalUnclassifiedPart {
  readonly type: 'unclassified';
  /** VT text. */
  readonly value: string;
}

/** One command with the output it has made so far. */
export interface TerminalCommandPart {
  readonly type: 'command';
  readonly commandId: string;
  readonly commandLine: string;
  /** VT text, without shell-integration marks. */
  readonly output: string;
  /** Unix time in ms at which it started. */
  readonly timestamp: number;
  readonly isComplete: boolean;
  readonly exitCode?: number;
  readonly durationMs?: number;
  readonly _meta?: TerminalPartMeta;
}

/** Running, or exited with a code where there is one. `status` is an open enum. */
export interface TerminalLifecycle {
  readonly status: string;
  readonly exitCode?: number;
}

/** A terminal in the root list. */
export interface TerminalInfo {
  readonly resource: Uri;
  readonly title: string;
  readonly claim: TerminalClaim;
  /** Required from 0.9 on; the host always writes it. */
  readonly lifecycle?: TerminalLifecycle;
  /** The form up to 0.8. */
  readonly exitCode?: number;
  readonly _meta?: TerminalMeta;
}

/** The whole state of one terminal. */
export interface TerminalState {
  readonly title: string;
  readonly content: readonly TerminalContentPart[];
  readonly claim: TerminalClaim;
  /** Required from 0.9 on; the host always writes it. */
  readonly lifecycle?: TerminalLifecycle;
  /** The form up to 0.8. */
  readonly exitCode?: number;
  readonly cwd?: Uri;
  readonly cols?: number;
  readonly rows?: number;
  readonly supportsCommandDetection?: boolean;
  readonly isPty?: boolean;
  readonly _meta?: TerminalMeta;
}

/** An agent provider in the root list. */
export interface AgentInfo {
  readonly provider: string;
  readonly displayName: string;
  readonly description?: string;
  readonly models?: readonly unknown[];
  readonly protectedResources?: readonly unknown[];
  readonly customizations?: readonly unknown[];
  readonly capabilities?: Readonly<Record<string, unknown>>;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Configuration of a host; ours has none. */
export interface RootConfig {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly values: Readonly<Record<string, unknown>>;
}

/** The state of the root channel. */
export interface RootState {
  readonly agents: readonly AgentInfo[];
  readonly activeSessions?: number;
  readonly terminals?: readonly TerminalInfo[];
  readonly config?: RootConfig;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Replaces the agents. */
export interface RootAgentsChangedAction {
  readonly type: 'root/agentsChanged';
  readonly agents: readonly AgentInfo[];
}

/** Replaces the number of active sessions. */
export interface RootActiveSessionsChangedAction {
  readonly type: 'root/activeSessionsChanged';
  readonly activeSessions: number;
}

/** Replaces the whole list of terminals. */
export interface RootTerminalsChangedAction {
  readonly type: 'root/terminalsChanged';
  readonly terminals: readonly TerminalInfo[];
}

/** Merges into the configuration's values, or replaces them all. */
export interface RootConfigChangedAction {
  readonly type: 'root/configChanged';
  readonly config: Readonly<Record<string, unknown>>;
  readonly replace?: boolean;
}

/** Output: appended to the tail. */
export interface TerminalDataAction {
  readonly type: 'terminal/data';
  /** VT text, never half a character. */
  readonly data: string;
}

/** Input for the pty. Its reducer does nothing; it is never kept. */
export interface TerminalInputAction {
  readonly type: 'terminal/input';
  readonly data: string;
}

/** The size, in character cells. */
export interface TerminalResizedAction {
  readonly type: 'terminal/resized';
  readonly cols: number;
  readonly rows: number;
}

/** Hands the terminal to another holder. */
export interface TerminalClaimedAction {
  readonly type: 'terminal/claimed';
  readonly claim: TerminalClaim;
}

/** Replaces the title. */
export interface TerminalTitleChangedAction {
  readonly type: 'terminal/titleChanged';
  readonly title: string;
}

/** The shell's folder, as a file: URI. */
export interface TerminalCwdChangedAction {
  readonly type: 'terminal/cwdChanged';
  readonly cwd: Uri;
}

/** The process has ended; no data follows. No code: ended by a signal. */
export interface TerminalExitedAction {
  readonly type: 'terminal/exited';
  readonly exitCode?: number;
}

/** Empties the content. */
export interface TerminalClearedAction {
  readonly type: 'terminal/cleared';
}

/** The shell's integration has spoken. */
export interface TerminalCommandDetectionAvailableAction {
  readonly type: 'terminal/commandDetectionAvailable';
}

/** A command has started; `timestamp` is Unix time in ms. */
export interface TerminalCommandExecutedAction {
  readonly type: 'terminal/commandExecuted';
  readonly commandId: string;
  readonly commandLine: string;
  readonly timestamp: number;
  readonly _meta?: TerminalPartMeta;
}

/** A command has ended. No exit code means unknown. */
export interface TerminalCommandFinishedAction {
  readonly type: 'terminal/commandFinished';
  readonly commandId: string;
  readonly exitCode?: number;
  readonly durationMs?: number;
}

/** Replaces the details of this terminal. */
export interface DetailsChangedAction {
  readonly type: 'x-terminal/detailsChanged';
  readonly details: TerminalDetails;
}

/** Replaces the details of one terminal in the root list. */
export interface InfoChangedAction {
  readonly type: 'x-terminal/infoChanged';
  readonly resource: Uri;
  readonly details: TerminalDetails;
}

/** A submitted text has come to its end. */
export interface RunEndedAction {
  readonly type: 'x-terminal/runEnded';
  readonly runId: string;
  readonly commandIds: readonly string[];
  readonly reason: 'continuation' | 'done' | 'exited' | 'lost' | 'untracked';
}

/** `_meta["x-terminal"]` of createTerminal. */
export interface TerminalCreationOptions {
  /** A shell's name or its path. */
  readonly shell?: string;
  readonly login?: boolean;
  readonly env?: Readonly<Record<string, string | null>>;
  readonly origin?: string;
}

/** `_meta` of createTerminal. */
export interface TerminalCreationMeta {
  readonly 'x-terminal'?: TerminalCreationOptions;
}

/** createTerminal -> null. The client chooses the URI. */
export interface CreateTerminalParams {
  readonly channel: Uri;
  readonly claim: TerminalClaim;
  readonly name?: string;
  readonly cwd?: Uri;
  readonly cols?: number;
  readonly rows?: number;
  readonly _meta?: TerminalCreationMeta;
}

/** disposeTerminal -> null. */
export interface DisposeTerminalParams {
  readonly channel: Uri;
}

/** x-terminal/run -> null once the text is handed over; `RunEndedAction` follows. */
export interface RunParams {
  readonly channel: Uri;
  readonly text: string;
  readonly runId: string;
  readonly discardTyped?: boolean;
}

/** x-terminal/signal -> SignalResult: to the running job and its descendants, never to the shell. */
export interface SignalParams {
  readonly channel: Uri;
  readonly signal: 'interrupt' | 'kill' | 'terminate';
}

/** A process that goes on. */
export interface Survivor {
  readonly pid: number;
  readonly name: string;
}

/** Who is still there after a signal or a close. */
export interface SignalResult {
  readonly survivors: readonly Survivor[];
}

/** The error member of a response. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** Which client dispatched an action. */
export interface ActionOrigin {
  readonly clientId: string;
  readonly clientSeq: number;
}

/** One published (or rejected) action. `serverSeq` is one counter over all channels. */
export interface ActionEnvelope {
  readonly channel: Uri;
  readonly action: StateAction;
  readonly serverSeq: number;
  readonly origin?: ActionOrigin;
  readonly rejectionReason?: string;
}

/** dispatchAction: `clientSeq` orders one client object's actions and is never used to drop one. */
export interface DispatchActionParams {
  readonly channel: Uri;
  readonly clientSeq: number;
  readonly action: StateAction;
}

/** Who speaks; informational only. */
export interface Implementation {
  readonly name: string;
  readonly version?: string;
  readonly title?: string;
}

/** Presence flags; unknown ones are ignored. */
export interface ClientCapabilities {
  readonly mcpApps?: Readonly<Record<string, unknown>>;
}

/** What `_meta["x-terminal"]` of initialize says. */
export interface XTerminalCapability {
  readonly version: number;
}

/** initialize: the first message of a connection. */
export interface InitializeParams {
  /** MAJOR.MINOR.PATCH each, not empty. */
  readonly protocolVersions: readonly string[];
  readonly clientId: string;
  readonly channel?: string;
  readonly clientInfo?: Implementation;
  readonly initialSubscriptions?: readonly Uri[];
  readonly locale?: string;
  readonly capabilities?: ClientCapabilities;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** A channel's state; every later envelope of it has a greater `serverSeq` than `fromSeq`. */
export interface Snapshot {
  readonly resource: Uri;
  readonly state: RootState | TerminalState | Readonly<Record<string, unknown>>;
  readonly fromSeq: number;
}

/** The answer to initialize. */
export interface InitializeResult {
  readonly protocolVersion: string;
  readonly serverSeq: number;
  readonly snapshots: readonly Snapshot[];
  readonly serverInfo?: Implementation;
  readonly defaultDirectory?: Uri;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** One channel of the per-channel form of reconnect; `lastSeenServerSeq` 0 asks for a snapshot. */
export interface ReconnectChannel {
  readonly channel: Uri;
  readonly lastSeenServerSeq: number;
}

/** reconnect: instead of initialize, as the first message on a new socket. */
export interface ReconnectParams {
  readonly clientId: string;
  readonly subscriptions: readonly (string | ReconnectChannel)[];
  readonly channel?: string;
  readonly lastSeenServerSeq?: number;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Every missed envelope of the subscriptions that still exist, in order. */
export interface ReconnectReplayResult {
  readonly type: 'replay';
  readonly actions: readonly ActionEnvelope[];
  readonly missing: readonly Uri[];
}

/** The states of the subscriptions that still exist. */
export interface ReconnectSnapshotResult {
  readonly type: 'snapshot';
  readonly snapshots: readonly Snapshot[];
}

/** The answer to the per-channel form: one entry per requested channel, with a `kind`. */
export interface ReconnectPerChannelResult {
  readonly channels: readonly Readonly<Record<string, unknown>>[];
}

/** `maxLatencyMs`: upper bound for intentional buffering; 0 asks for none. */
export interface SubscribeDelivery {
  readonly maxLatencyMs?: number;
}

/** subscribe -> SubscribeResult. */
export interface SubscribeParams {
  readonly channel: Uri;
  readonly delivery?: SubscribeDelivery;
}

/** The snapshot; absent for a channel without state. */
export interface SubscribeResult {
  readonly snapshot?: Snapshot;
}

/** unsubscribe (notification). */
export interface UnsubscribeParams {
  readonly channel: Uri;
}

/** listSessions, newest first. */
export interface ListSessionsParams {
  readonly channel?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** A session in the catalogue; `status` is a bit set whose unknown bits are kept. */
export interface SessionSummary {
  readonly resource: Uri;
  readonly provider: string;
  readonly title: string;
  readonly status: number;
  readonly createdAt: string;
  readonly modifiedAt: string;
  readonly workingDirectories?: readonly Uri[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Changes of a summary; never `resource`, `provider`, `createdAt`. */
export interface PartialSessionSummary {
  readonly title?: string;
  readonly status?: number;
  readonly modifiedAt?: string;
  readonly workingDirectories?: readonly Uri[];
}

/** root/sessionAdded. */
export interface SessionAddedParams {
  readonly channel: Uri;
  readonly summary: SessionSummary;
}

/** A page of the catalogue. */
export interface ListSessionsResult {
  readonly items: readonly SessionSummary[];
  readonly nextCursor?: string;
}

/** How text looks; an absent member is the default. */
export interface TextStyle {
  readonly fg?: Color;
  readonly bg?: Color;
  readonly bold?: boolean;
  readonly dim?: boolean;
  readonly italic?: boolean;
  readonly underline?: boolean;
  readonly blink?: boolean;
  readonly inverse?: boolean;
  readonly hidden?: boolean;
  readonly strike?: boolean;
  /** A link's address: http, https or mailto only. */
  readonly href?: string;
}

/** A run of text in one style. No control characters are in it. */
export interface StyledText {
  readonly text: string;
  readonly style?: TextStyle;
}

/** Resolved output: the first lines, then those left out, then the last lines. */
export interface SavedOutput {
  readonly head: readonly (readonly StyledText[])[];
  /** The last lines; empty where nothing was left out. */
  readonly tail: readonly (readonly StyledText[])[];
  /** Lines between head and tail that are not kept. */
  readonly omittedLines: number;
  /** Their size in UTF-8 bytes. */
  readonly omittedBytes: number;
}

/** One command with its resolved output. */
export interface SavedCommand {
  readonly commandId: string;
  readonly commandLine: string;
  readonly output: SavedOutput;
  /** Unix time in ms at which it started; 0 where unknown. */
  readonly timestamp: number;
  readonly isComplete: boolean;
  readonly exitCode?: number;
  readonly durationMs?: number;
  /** Why it ended, where that is not its own end: "timeout", "interrupted", "killed", "lost". */
  readonly end?: string;
}

/** What one run (a cell, or one `t.run`) leaves: its commands in order. */
export interface CommandBundle {
  /** 1. A reader shows a newer one by its text/html. */
  readonly version: number;
  readonly terminal: Uri;
  /** The terminal's name. */
  readonly title: string;
  readonly commands: readonly SavedCommand[];
  /** The folder it ran in, as a path. */
  readonly cwd?: string;
  readonly runId?: string;
}

/** A claim of a kind that a newer peer knows. */
export interface UnknownClaim {
  readonly kind: UnknownTag;
  readonly [key: string]: unknown;
}

/** Who holds a terminal: a client or a session. There is always exactly one holder. */
export type TerminalClaim =
  | TerminalClientClaim
  | TerminalSessionClaim
  | UnknownClaim;

/** A part of a type that a newer peer knows; it counts as no text. */
export interface UnknownPart {
  readonly type: UnknownTag;
  readonly [key: string]: unknown;
}

/** A piece of a terminal's content, in stream order. */
export type TerminalContentPart =
  | TerminalUnclassifiedPart
  | TerminalCommandPart
  | UnknownPart;

/** An action of a type that a newer peer knows. It changes nothing. */
export interface UnknownAction {
  readonly type: UnknownTag;
  readonly [key: string]: unknown;
}

/** A change of a channel's state. */
export type StateAction =
  | RootAgentsChangedAction
  | RootActiveSessionsChangedAction
  | RootTerminalsChangedAction
  | RootConfigChangedAction
  | TerminalDataAction
  | TerminalInputAction
  | TerminalResizedAction
  | TerminalClaimedAction
  | TerminalTitleChangedAction
  | TerminalCwdChangedAction
  | TerminalExitedAction
  | TerminalClearedAction
  | TerminalCommandDetectionAvailableAction
  | TerminalCommandExecutedAction
  | TerminalCommandFinishedAction
  | DetailsChangedAction
  | InfoChangedAction
  | RunEndedAction
  | UnknownAction;

export const ROOT_URI = 'ahp-root://';

export const COMMAND_MIME = 'application/vnd.jupyter-ahp.command+json';

/** Baselines, newest first; each accepts its caret range. */
export const SUPPORTED_VERSIONS: readonly string[] = ['1.0.0', '0.10.0', '0.9.0', '0.8.0', '0.7.0', '0.6.0', '0.5.2', '0.5.1'];

/** What a peer of ours announces in `_meta` of initialize. */
export const EXTENSIONS: Readonly<Record<string, unknown>> = {"x-terminal": {"version": 1}};

/** The types of the actions that a client may dispatch. */
export const CLIENT_DISPATCHABLE: ReadonlySet<string> = new Set(['root/configChanged', 'terminal/claimed', 'terminal/cleared', 'terminal/input', 'terminal/resized', 'terminal/titleChanged']);

/** Error codes on the wire. */
export const ErrorCode = {
  PARSE_ERROR: -32700,
  INVALID_REQUEST: -32600,
  METHOD_NOT_FOUND: -32601,
  INVALID_PARAMS: -32602,
  INTERNAL_ERROR: -32603,
  SESSION_NOT_FOUND: -32001,
  PROVIDER_NOT_FOUND: -32002,
  SESSION_ALREADY_EXISTS: -32003,
  TURN_IN_PROGRESS: -32004,
  UNSUPPORTED_PROTOCOL_VERSION: -32005,
  AUTH_REQUIRED: -32007,
  NOT_FOUND: -32008,
  PERMISSION_DENIED: -32009,
  ALREADY_EXISTS: -32010,
  CONFLICT: -32011
} as const;
