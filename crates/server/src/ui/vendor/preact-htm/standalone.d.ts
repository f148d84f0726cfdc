// The types of what the page uses of preact and htm. They are ours; the code beside is theirs.
export type Node = any;
export function html(strings: TemplateStringsArray, ...values: any[]): Node;
export function render(node: Node, parent: Element): void;
export function useState<T>(start: T | (() => T)): [T, (next: T | ((now: T) => T)) => void];
export function useEffect(run: () => void | (() => void), inputs?: unknown[]): void;
export function useLayoutEffect(run: () => void | (() => void), inputs?: unknown[]): void;
export function useRef<T>(start: T): { current: T };
export function useMemo<T>(make: () => T, inputs?: unknown[]): T;
export function useCallback<T extends Function>(callback: T, inputs?: unknown[]): T;
export function useErrorBoundary(seen?: (error: any) => void): [any, () => void];
